//! Matmul of f64.

use crate::dtype::DType;
use crate::kernel::matmul::problem::Params;
use crate::shader::{Access, Kernel, Specialization};

pub static MATMUL_F64: Kernel = Kernel {
    slots: |spec, text| {
        text.ops(spec.info(2).compute);
        Ok(())
    },
    ..kernel!("matmul", "matmul_f64", Params::LAYOUT.first(15); read a, read b, write y)
};

pub(crate) fn matmul_spec(dtype: DType) -> Specialization {
    let [read, write] = [Access::Words, Access::PutWord].map(|access| (dtype, access));
    Specialization::new(&MATMUL_F64, "", &[read, read, write])
}

pub fn catalogue() -> Vec<Specialization> {
    vec![matmul_spec(DType::F64)]
}
