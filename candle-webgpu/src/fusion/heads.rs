//! The heads of an attention, from the batch dims of its operands.

/// Sizes of the batch, of the KV heads and of the query heads that share one (GQA); and their strides in q, k, v, mask and y.
pub(crate) struct Heads {
    pub sizes: [u32; 3],
    pub strides: [[u32; 3]; 5],
}

impl Heads {
    pub fn of(dims: &[(usize, [usize; 5])]) -> Option<Heads> {
        let shared = dims
            .last()
            .is_some_and(|(_, [_, k, v, ..])| *k == 0 && *v == 0);
        let (outer, each) = dims.split_at(dims.len() - usize::from(shared));
        let mut heads = Heads {
            sizes: [1; 3],
            strides: [[0; 3]; 5],
        };
        let first = 2usize.checked_sub(outer.len())?;
        let dims = (first..).zip(outer).chain((2..).zip(each));
        for (at, (size, strides)) in dims {
            heads.sizes[at] = u32::try_from(*size).ok()?;
            for (to, from) in heads.strides.iter_mut().zip(strides) {
                to[at] = u32::try_from(*from).ok()?;
            }
        }
        Some(heads)
    }
}
