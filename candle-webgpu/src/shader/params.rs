//! Kernel parameters: one declaration generates the uploaded struct and its layout, which a test compares with the WGSL struct.

/// Maximum bytes of an op's parameters: one slot of the uniform buffer. This is the largest dynamic offset alignment that WebGPU lets an
/// adapter require.
pub(crate) const PARAMS_SLOT: u64 = 256;

/// A field of the parameters; offset and size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
    /// Those of a struct.
    pub fields: &'static [Field],
}

/// A type of parameters.
pub(crate) trait Param {
    /// Those of a struct.
    const FIELDS: &'static [Field] = &[];
}

impl Param for u32 {}
impl Param for i32 {}
impl Param for f32 {}
impl Param for f64 {}
impl<T: Param, const N: usize> Param for [T; N] {}

/// The layout of a kernel's `Params`: its fields in declaration order.
#[derive(Debug, Clone, Copy)]
pub struct ParamsLayout {
    pub fields: &'static [Field],
    pub size: usize,
}

impl ParamsLayout {
    /// For a kernel that reads only the first `count` fields.
    pub(crate) const fn first(self, count: usize) -> Self {
        let (fields, _) = self.fields.split_at(count);
        ParamsLayout { fields, ..self }
    }
}

/// Declares a kernel's parameters as a `repr(C)`, `Pod` struct with the field names of the WGSL struct, and `LAYOUT` for the kernel's row.
/// Fields whose names begin with `pad` are the padding that WGSL inserts. The fields of a nested struct count as the kernel's own: WGSL may
/// declare them in a struct or not.
macro_rules! params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $ty:ty),+ $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $ty),+ }

        impl $crate::shader::Param for $name {
            const FIELDS: &'static [$crate::shader::Field] = &[$($crate::shader::Field {
                name: stringify!($field),
                offset: std::mem::offset_of!($name, $field),
                size: size_of::<$ty>(),
                fields: <$ty as $crate::shader::Param>::FIELDS,
            }),+];
        }

        impl $name {
            /// Compared with the WGSL struct by a test.
            #[allow(dead_code, reason = "a struct nested in other parameters has no row")]
            pub(crate) const LAYOUT: $crate::shader::ParamsLayout = $crate::shader::ParamsLayout {
                fields: <Self as $crate::shader::Param>::FIELDS,
                size: size_of::<$name>(),
            };
        }
    };
}
pub(crate) use params;
