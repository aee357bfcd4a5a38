//! A transposing copy goes through tiles in workgroup memory. The last of rules, since others know it as it is recorded.

use crate::fusion::graph::{Graph, Rewrite};
use crate::fusion::rule::{Apply, Enabled, Exact, Rule, Scan};
use crate::kernel::copy::transpose::plan;
use crate::kernel::copy::COPY_ELEMS;
use crate::kernel::elementwise::unary::{COPY, UNARY};
use crate::kernel::Strided;
use crate::memory::view::MAX_RANK;
use crate::recorder::gpu::Gpu;
use crate::recorder::op::Op;
use crate::shader::Access;

pub(crate) const RULE: Rule = Rule {
    name: "tiled_transpose",
    about: "transposing copies: the same through tiles in workgroup memory",
    enabled: Enabled::Always,
    exact: Exact::Always,
    needs: &[],
    apply: Apply::Batch(Scan::Due, find),
};

/// The tiled form of a copy into existing memory, or of a contiguous copy.
fn find(device: &Gpu, graph: &Graph, at: usize) -> Option<Rewrite> {
    let op = graph.op(at)?;
    let copy = if op.is_of(&COPY_ELEMS) {
        op.params()
    } else if op.is_of(&UNARY) && op.spec.op == COPY && op.spec.operands[0].1 == Access::Strided {
        contiguous(&op.params())
    } else {
        return None;
    };
    let (spec, params, grid) = plan(op.spec.dtype(0), &copy)?;
    let room = device.limits.max_compute_workgroup_storage_size;
    if (spec.kernel.shared)(&spec) > room {
        return None;
    }
    let grid = device.split(&spec, grid).ok()?;
    let tiled = Op::new(spec, op.operands.clone(), &params, grid);
    Some(Rewrite::new(&[at], at, [tiled]))
}

/// The parameters of a contiguous copy, with the strides of y.
fn contiguous(copy: &Strided<1>) -> Strided<2> {
    let mut strides = [copy.strides[0], [0; MAX_RANK]];
    let mut step = 1;
    for d in (0..copy.rank as usize).rev() {
        strides[1][d] = step;
        step *= copy.dims[d];
    }
    Strided {
        n: copy.n,
        rank: copy.rank,
        offsets: [copy.offsets[0], 0, 0, 0],
        pad: [0; 2],
        dims: copy.dims,
        strides,
    }
}

#[cfg(test)]
mod tests {
    use crate::dtype::DType;
    use crate::fusion::testing::{saves, Bench, T};
    use crate::memory::split::contiguous_strides;

    const DTYPES: [DType; 4] = [DType::U8, DType::F16, DType::F32, DType::I64];

    /// Copies of a view of `count` elements, of all dtypes' sizes, to fresh memory and into every second line of a matrix.
    fn copies(count: usize, dims: &[usize], strides: &[usize], offset: usize) {
        for dtype in DTYPES {
            saves(0, (dtype, dims), |b| {
                let x = b.of(dtype, &[count]).shown(dims, strides, offset);
                let y = b.device.contiguous(x.v()).expect("a copy");
                let (n, lines) = (x.v().count(), b.of(dtype, &[2 * x.v().count()]));
                let last = dims[dims.len() - 1];
                let mut steps: Vec<_> = contiguous_strides(dims).iter().map(|s| s * 2).collect();
                steps[dims.len() - 1] = 1;
                let to = lines.shown(dims, &steps, last);
                b.copy(&x, &to);
                vec![T::new(y, dtype, dims), lines.shown(&[2 * n], &[1], 0)]
            });
        }
    }

    #[test]
    fn moves_the_same() {
        copies(64 * 128, &[128, 64], &[1, 128], 0);
        copies(100 * 68 + 8, &[68, 100], &[1, 68], 8);
        copies(3 * 20 * 36, &[3, 36, 20], &[720, 1, 36], 0);
        // The two dims need not be neighbours, nor the first of a batch the outermost.
        copies(16 * 5 * 24, &[16, 5, 24], &[1, 384, 16], 0);
        copies(2 * 3 * 16 * 32, &[2, 16, 3, 32], &[512, 1, 1024, 16], 0);
        // What is no whole quad stays as it was.
        copies(17 * 64, &[17, 64], &[1, 17], 0);
        copies(32 * 32 + 1, &[32, 32], &[1, 32], 1);
    }

    #[test]
    fn fires() {
        let b = Bench::new("");
        let x = b.floats(&[64, 32]).shown(&[32, 64], &[1, 32], 0);
        b.device.contiguous(x.v()).expect("a copy");
        b.device.synchronize().expect("no error");
        let rules = b.device.rewrites();
        assert!(rules
            .iter()
            .any(|r| r.rule == super::RULE.name && r.times == 1));
    }
}
