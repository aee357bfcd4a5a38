//! Finds the first op that made a NaN or an infinity from finite operands (`CANDLE_WEBGPU_CHECK_NAN`).

use crate::dtype::DType;
use crate::kernel::{RAW, WORKGROUP};
use crate::shader::{params, Kernel, Specialization};

pub static NONFINITE: Kernel =
    kernel!("reduce", "nonfinite", Params::LAYOUT; read x, write seen, write fault);

/// Words of a thread.
const SPAN: u64 = 16;
/// Op numbers that fit into the fault record.
pub(crate) const NUMBERS: u32 = 1 << 30;

params! {
    pub(crate) struct Params {
        words: u32,
        last: u32,
        lanes: u32,
        infinity: u32,
        pub slot: u32,
        pub behind: u32,
        pub number: u32,
        pad: u32,
    }
}

pub(crate) fn spec() -> Specialization {
    Specialization::new(&NONFINITE, "", &[RAW, RAW, RAW])
}

pub fn catalogue() -> Vec<Specialization> {
    vec![spec()]
}

impl Params {
    /// For `bytes` bytes of a float dtype.
    pub fn new(dtype: DType, bytes: u64) -> Self {
        let row = dtype.info();
        let lanes = if row.size == 8 { 0 } else { row.lanes };
        let infinity = row.float.map_or(u32::MAX, |float| float.infinity);
        let rest = bytes % 4;
        Params {
            words: bytes.div_ceil(4) as u32,
            last: match rest {
                0 => u32::MAX,
                rest => (1 << (8 * rest)) - 1,
            },
            lanes,
            infinity,
            ..bytemuck::Zeroable::zeroed()
        }
    }

    /// Workgroups to dispatch.
    pub fn groups(&self) -> u64 {
        u64::from(self.words).div_ceil(SPAN * u64::from(WORKGROUP))
    }
}

/// Decodes word 5 of the fault record: the number of the first op, and what it made.
pub(crate) fn found(word: u32) -> Option<(u32, &'static str)> {
    let what = match word & 3 {
        0 => return None,
        1 => "an infinity",
        2 => "NaN",
        _ => "NaN and infinities",
    };
    Some((NUMBERS - 1 - (word >> 2), what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_op_wins() {
        let word = |number: u32, kinds: u32| (NUMBERS - 1 - number) << 2 | kinds;
        assert!(word(3, 1) > word(4, 3));
        assert_eq!(found(word(7, 2)), Some((7, "NaN")));
        assert_eq!(found(0), None);
    }
}
