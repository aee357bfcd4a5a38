//! How fast a split model decodes, from the times of its parts. docs/scale.md explains the formulas.

/// What decoding a token takes on one device, apart from the other devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compute {
    /// One token through all layers and the head on one device with enough memory, in seconds.
    pub token: f64,
    /// The part of it that does not shrink when matrices are split: launches and small kernels.
    pub fixed: f64,
}

/// Moving the hidden state of one token from one device to another, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hop {
    pub readback: f64,
    pub upload: f64,
    /// One way, without the bytes.
    pub latency: f64,
    /// The bytes of one token over the link.
    pub transmit: f64,
}

impl Hop {
    /// Readback, link and upload.
    fn all(&self) -> f64 {
        self.readback + self.latency + self.transmit + self.upload
    }
}

/// Tokens per second of one sequence over a pipeline of `ranks`: its devices work one after the other. The token returns to rank 0.
pub fn pipeline_one(compute: Compute, hop: Hop, ranks: usize) -> f64 {
    let hops = (ranks - 1) as f64;
    let back = match ranks {
        1 => 0.,
        _ => hop.latency,
    };
    1. / (compute.token + hops * hop.all() + back)
}

/// Tokens per second of all sequences together with enough of them in flight: the slower thread of the rank with the largest `share` of the
/// work decides. One uploads and computes, the other reads back and sends.
pub fn pipeline_all(compute: Compute, hop: Hop, share: f64) -> f64 {
    let stage = compute.token * share;
    if share >= 1. {
        return 1. / stage;
    }
    let send = hop.readback + hop.latency + hop.transmit;
    1. / (stage + hop.upload).max(send)
}

/// Tokens per second of tensor parallelism: matrices take a share of the time; two sums per layer, one of the embedding, and one comparison
/// of tokens wait for all ranks.
pub fn tensor(compute: Compute, hop: Hop, ranks: usize, layers: usize) -> f64 {
    if ranks == 1 {
        return 1. / compute.token;
    }
    let matrices = (compute.token - compute.fixed).max(0.) / ranks as f64;
    // Each rank receives the partial sums of all others.
    let gather = hop.readback + hop.latency + (ranks - 1) as f64 * hop.transmit + hop.upload;
    let compare = hop.readback + hop.latency;
    let sums = (2 * layers + 1) as f64;
    1. / (compute.fixed + matrices + sums * gather + compare)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPUTE: Compute = Compute {
        token: 0.04,
        fixed: 0.008,
    };
    const FREE: Hop = Hop {
        readback: 0.,
        upload: 0.,
        latency: 0.,
        transmit: 0.,
    };

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.).abs() < 1e-9
    }

    #[test]
    fn free_hops_divide_the_work() {
        assert!(near(pipeline_one(COMPUTE, FREE, 4), 25.));
        assert!(near(pipeline_all(COMPUTE, FREE, 0.25), 100.));
        assert!(near(tensor(COMPUTE, FREE, 4, 80), 1. / 0.016));
    }

    #[test]
    fn one_rank_has_no_hops() {
        let hop = Hop {
            latency: 1.,
            ..FREE
        };
        let one = [
            pipeline_one(COMPUTE, hop, 1),
            pipeline_all(COMPUTE, hop, 1.),
            tensor(COMPUTE, hop, 1, 80),
        ];
        assert!(one.iter().all(|rate| near(*rate, 25.)));
    }

    #[test]
    fn a_slow_link_bounds_a_pipeline_and_costs_tensor_parallelism_every_layer() {
        let hop = Hop {
            latency: 0.02,
            ..FREE
        };
        assert!(near(pipeline_all(COMPUTE, hop, 0.25), 50.));
        assert!(near(pipeline_one(COMPUTE, hop, 2), 1. / 0.08));
        let expected = 0.008 + 0.016 + 5. * 0.02 + 0.02;
        assert!(near(tensor(COMPUTE, hop, 2, 2), 1. / expected));
    }
}
