//! Ops whose results nobody reads and nobody holds are left out.

use crate::fusion::graph::Graph;
use crate::recorder::gpu::Gpu;

pub(crate) fn rewrite(_: &Gpu, graph: &mut Graph) -> u64 {
    let mut fired = 0;
    // From the last on: what only a dead op reads is dead, too.
    for at in graph.due().rev() {
        if is_dead(graph, at) {
            graph.replace(&[at], at, []);
            fired += 1;
        }
    }
    fired
}

/// Whether all that an op writes is read nowhere and held by no tensor. The fault record always is.
fn is_dead(graph: &Graph, at: usize) -> bool {
    graph.op(at).is_some_and(|op| {
        let mut written = graph.written(op).peekable();
        written.peek().is_some()
            && written.all(|value| graph.readers(value).is_empty() && graph.is_private(value))
    })
}

#[cfg(test)]
mod tests {
    use crate::fusion::testing::same_bits;

    #[test]
    fn what_nobody_reads() {
        let counts = same_bits(|b| {
            let x = b.floats(&[64]);
            let y = b.unary("uexp", &x);
            b.unary("uneg", &b.softmax(&b.unary("uexp", &y)));
            vec![y]
        });
        assert_eq!(counts, (1, 4));
    }

    #[test]
    fn what_is_written_in_place_stays() {
        let counts = same_bits(|b| {
            let (x, y) = (b.floats(&[64]), b.floats(&[64]));
            b.device.copy_into(x.v(), y.v()).expect("copy");
            vec![y]
        });
        assert_eq!(counts, (1, 1));
    }
}
