//! wide: what the kernels of products and fused ops compute in f32, for f64: a product of its own, the
//! others by the elementwise kernels and reductions.

use crate::buffer::Value;
use crate::device::Device;
use crate::elem::Elem;
use crate::error::Result;
use crate::kernel::WORKGROUP;
use crate::layout::View;
use crate::link::{read, write, Access, Kernel, Spec};

pub static MATMUL_WIDE: Kernel = Kernel {
    name: "matmul_wide",
    source: include_str!("../../wgsl/kernel/matmul_wide.wgsl"),
    bindings: &[read("a"), read("b"), write("y")],
    workgroup: WORKGROUP,
    shared: |_| 0,
    features: wgpu::Features::empty(),
    slots: |spec, text| {
        text.ops(spec.row(2)?.compute);
        Ok(())
    },
};

pub(crate) fn matmul_spec(elem: Elem) -> Spec {
    let [read, write] = [Access::Words, Access::PutWord].map(|access| (elem, access));
    Spec::new(&MATMUL_WIDE, "", &[read, read, write])
}

pub fn catalogue() -> Vec<Spec> {
    vec![matmul_spec(Elem::F64)]
}

/// A view of all of a fresh value.
fn all<'a>(value: &'a Value, elem: Elem, dims: &'a [usize], strides: &'a [usize]) -> View<'a> {
    View {
        value,
        elem,
        dims,
        strides,
        offset: 0,
    }
}

impl Device {
    /// Softmax over the last dim of a contiguous x, in steps.
    pub(crate) fn softmax_in_steps(&self, x: View<'_>) -> Result<Value> {
        let n = x.dims.last().copied().unwrap_or(1);
        let rows = x.count().checked_div(n).unwrap_or(0);
        if rows == 0 {
            return self.output("softmax_last_dim", 0, x.elem);
        }
        let (dims, strides) = ([rows, n], [n, 1]);
        let x = View {
            dims: &dims,
            strides: &strides,
            ..x
        };
        let top = self.fold("max", x, &[1])?;
        let repeated = |v| all(v, x.elem, &dims, &[1, 0]);
        let below = self.zip("bsub", x, repeated(&top))?;
        let powers = self.map("uexp", all(&below, x.elem, &dims, &strides), [0.0; 2])?;
        let powers = all(&powers, x.elem, &dims, &strides);
        let sum = self.fold("sum", powers, &[1])?;
        self.zip("bdiv", powers, repeated(&sum))
    }

    /// Rotary embedding in steps. `views` are x, the cosines and the sines; `angles` the strides of the
    /// latter two along the dims of x, and `halves` tells where a pair lies.
    pub(crate) fn rotate_in_steps(
        &self,
        [x, cos, sin]: [View<'_>; 3],
        angles: [[usize; 4]; 2],
        halves: bool,
    ) -> Result<Value> {
        let [b, i, j, d] = [x.dims[0], x.dims[1], x.dims[2], x.dims[3]];
        let dims = [b, i, j, d / 2];
        let y = self.output("rope", x.count(), x.elem)?;
        // The distance of a pair, and of pairs.
        let (apart, step) = if halves { (d / 2, 1) } else { (1, 2) };
        let last = x.strides[3];
        let strides = [x.strides[0], x.strides[1], x.strides[2], last * step];
        let part = |k: usize| View {
            dims: &dims,
            strides: &strides,
            offset: x.offset + k * apart * last,
            ..x
        };
        let angle = |v: View<'_>, k: usize| -> Result<Value> {
            self.contiguous(View {
                value: v.value,
                elem: v.elem,
                dims: &dims,
                strides: &angles[k],
                offset: v.offset,
            })
        };
        let (c, s) = (angle(cos, 0)?, angle(sin, 1)?);
        let flat = [i * j * (d / 2), j * (d / 2), d / 2, 1];
        let out = [i * j * d, j * d, d, step];
        for (k, op) in ["bsub", "badd"].into_iter().enumerate() {
            let u = self.zip("bmul", part(k), all(&c, x.elem, &dims, &flat))?;
            let v = self.zip("bmul", part(1 - k), all(&s, x.elem, &dims, &flat))?;
            let sum = self.zip(
                op,
                all(&u, x.elem, &dims, &flat),
                all(&v, x.elem, &dims, &flat),
            )?;
            let to = View {
                offset: k * apart,
                ..all(&y, x.elem, &dims, &out)
            };
            self.copy_into(all(&sum, x.elem, &dims, &flat), to)?;
        }
        Ok(y)
    }
}
