//! The parameters of kernels: one declaration gives the struct that is uploaded and its layout, which a test compares with the
//! layout of the WGSL struct.

/// Bytes of parameters an op may have: one slot of the uniform buffer, and the largest dynamic-offset alignment that WebGPU allows an adapter to
/// ask for.
pub(crate) const PARAMS_SLOT: u64 = 256;

/// A field of the parameters, in bytes from their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
}

/// How the parameters of a kernel lie in memory: the fields of its `Params` in declaration order.
#[derive(Debug, Clone, Copy)]
pub struct ParamsLayout {
    pub fields: &'static [Field],
    pub size: usize,
}

impl ParamsLayout {
    /// Of a kernel whose struct is not declared by [`params`](crate::shader::params).
    pub const UNKNOWN: ParamsLayout = ParamsLayout {
        fields: &[],
        size: 0,
    };
}

/// Declares parameters as a kernel's file declares them in WGSL: `repr(C)`, plain old data, and `LAYOUT` for the kernel's row. Fields
/// whose names begin with `pad` stand for the padding that WGSL inserts.
macro_rules! params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $ty:ty),+ $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
        $vis struct $name { $($(#[$field_meta])* $field_vis $field: $ty),+ }

        impl $name {
            /// Compared with the WGSL struct by a test.
            #[allow(dead_code, reason = "parts of other parameters have no row of their own")]
            pub(crate) const LAYOUT: $crate::shader::ParamsLayout = $crate::shader::ParamsLayout {
                fields: &[$($crate::shader::Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                    size: size_of::<$ty>(),
                }),+],
                size: size_of::<$name>(),
            };
        }
    };
}
pub(crate) use params;
