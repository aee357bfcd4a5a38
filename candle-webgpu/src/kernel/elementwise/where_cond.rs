//! where_cond: `y = c ? t : f` on bits.

use crate::dtype::{BITS, INTEGERS};
use crate::error::{Error, Result};
use crate::kernel::elementwise::fused::holds;
use crate::kernel::elementwise::ACCESS;
use crate::kernel::{span_slot, strided_layout};
use crate::memory::buffer::Value;
use crate::memory::view::View;
use crate::recorder::Recorder;
use crate::shader::{Access, Kernel, Specialization, Text};

pub static WHERE_COND: Kernel = Kernel {
    slots,
    ..kernel!("elementwise", "where_cond", strided_layout!("c": 0, "t": 1, "f": 2); read c, read t, read f, write y)
};

fn slots(spec: &Specialization, text: &mut Text) -> Result<()> {
    span_slot(spec, text);
    let test = holds(spec.info(0).compute, "c");
    text.line(format!("fn holds(c: CV) -> bool {{ return {test}; }}"));
    Ok(())
}

pub fn catalogue() -> Vec<Specialization> {
    let accesses = || ACCESS.into_iter();
    let pairs = || accesses().flat_map(move |a| accesses().map(move |b| (a, b)));
    let mut all = Vec::new();
    for c in INTEGERS {
        for e in BITS {
            let spec = |ca, ta, fa| {
                let operands = [(c, ca), (e, ta), (e, fa), (e, Access::Put)];
                Specialization::new(&WHERE_COND, "", &operands)
            };
            all.extend(accesses().flat_map(|c| pairs().map(move |(t, f)| spec(c, t, f))));
        }
    }
    all
}

impl Recorder {
    /// `y = c != 0 ? t : f` elementwise, contiguous. The three views have the same dims, `t` and `f` the same dtype, `c` an integer one.
    pub fn where_cond(&self, c: View<'_>, t: View<'_>, f: View<'_>) -> Result<Value> {
        let op = WHERE_COND.name;
        c.dtype.one_of(&INTEGERS, op)?;
        if t.dtype != f.dtype || c.dims != t.dims || c.dims != f.dims {
            let message = format!(
                "operands differ: {:?}, {:?} {} and {:?} {}",
                c.dims, t.dims, t.dtype, f.dims, f.dtype
            );
            return Err(Error::Invalid { op, message });
        }
        let bits = t.dtype.bits();
        let [t, f] = [t, f].map(|v| v.with_dtype(bits));
        self.elementwise(&WHERE_COND, "", [c, t, f], bits, [[0; 2]; 2])
    }
}
