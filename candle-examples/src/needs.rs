//! The memory that a model needs.

/// The device memory that a model needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    pub weights: u64,
    /// The largest tensor.
    pub largest: u64,
    /// The KV cache of one token.
    pub per_token: u64,
}

impl Needs {
    /// The needs of a model with tensors of these sizes.
    pub fn of(tensors: impl IntoIterator<Item = u64>, per_token: u64) -> Self {
        let mut needs = Self {
            weights: 0,
            largest: 0,
            per_token,
        };
        for bytes in tensors {
            needs.weights = needs.weights.saturating_add(bytes);
            needs.largest = needs.largest.max(bytes);
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_the_largest() {
        let needs = Needs::of([3, 5, 4], 2);
        assert_eq!((needs.weights, needs.largest), (12, 5));
        assert_eq!(Needs::of([u64::MAX, 1], 2).weights, u64::MAX);
    }
}
