//! QUANTS: one row per block format of GGUF. A block is a fixed number of elements with shared scales. On the device, several blocks form a
//! group that stores each field of all its blocks contiguously, so that every field starts at a multiple of 16 bytes.

use std::borrow::Cow;

/// A block format of GGUF.
#[allow(non_camel_case_types)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quant {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
}

/// One row of [`QUANTS`].
#[derive(Debug)]
pub struct QuantInfo {
    pub quant: Quant,
    /// The file in `wgsl/quant/`, whose functions unpack 32 elements at a time.
    pub name: &'static str,
    /// Elements per block.
    pub block_len: usize,
    /// Bytes per block.
    pub bytes: usize,
    /// Blocks per group.
    pub group: usize,
    /// Byte range `start..end` of each field in a block, in the order of the group.
    pub fields: &'static [(usize, usize)],
    /// Units of 32 elements that are loaded together because they share words (a span).
    pub span: u32,
    /// Columns per thread of gemv_dot for several rows, tuned on an NVIDIA H200: with 4 columns, the loads of K formats use so many
    /// registers that fewer workgroups run.
    pub cols: u32,
    /// The two halves of a unit have different scales.
    pub halves: bool,
    /// Elements are `scale * q + shift` with a nonzero shift.
    pub shifted: bool,
    /// Scales and shifts are integers and the units of a span share their factors, so that sums over a span are integers.
    pub whole: bool,
    pub source: &'static str,
}

macro_rules! row {
    ($quant:ident, $name:literal, $block_len:literal, $bytes:literal, $group:literal, $fields:expr, $span:literal, $cols:literal, $halves:literal, $shifted:literal, $whole:literal) => {
        QuantInfo {
            quant: Quant::$quant,
            name: $name,
            block_len: $block_len,
            bytes: $bytes,
            group: $group,
            fields: &$fields,
            span: $span,
            cols: $cols,
            halves: $halves,
            shifted: $shifted,
            whole: $whole,
            source: wgsl!("quant/", $name, ".wgsl"),
        }
    };
}

/// In the order of [`Quant`].
#[rustfmt::skip]
pub const QUANTS: &[QuantInfo] = &[
    //   quant name    block_len bytes group fields                                          span  cols  halves  shifted whole
    row!(Q4_0, "q4_0", 32,   18,   8,    [(0, 2), (2, 18)],                              2,    4,    false,  false,  false),
    row!(Q4_1, "q4_1", 32,   20,   4,    [(0, 4), (4, 20)],                              2,    4,    false,  true,   false),
    row!(Q5_0, "q5_0", 32,   22,   8,    [(0, 2), (2, 6), (6, 22)],                      2,    4,    false,  false,  false),
    row!(Q5_1, "q5_1", 32,   24,   4,    [(0, 4), (4, 8), (8, 24)],                      2,    4,    false,  true,   false),
    row!(Q8_0, "q8_0", 32,   34,   8,    [(0, 2), (2, 34)],                              1,    2,    false,  false,  false),
    row!(Q8_1, "q8_1", 32,   36,   4,    [(0, 4), (4, 36)],                              1,    2,    false,  false,  false),
    row!(Q2K,  "q2k",  256,  84,   4,    [(80, 84), (0, 16), (16, 80)],                  4,    2,    true,   true,   true),
    row!(Q3K,  "q3k",  256,  110,  8,    [(108, 110), (96, 108), (0, 32), (32, 96)],     4,    2,    true,   true,   true),
    row!(Q4K,  "q4k",  256,  144,  1,    [(0, 144)],                                     4,    2,    false,  true,   true),
    row!(Q5K,  "q5k",  256,  176,  1,    [(0, 176)],                                     4,    2,    false,  true,   true),
    row!(Q6K,  "q6k",  256,  210,  8,    [(208, 210), (192, 208), (128, 192), (0, 128)], 4,    2,    true,   false,  true),
    row!(Q8K,  "q8k",  256,  292,  4,    [(0, 4), (4, 260), (260, 292)],                 1,    2,    false,  false,  false),
];

impl Quant {
    pub fn info(self) -> &'static QuantInfo {
        &QUANTS[self as usize]
    }
}

impl QuantInfo {
    /// Whether a block's scale and shift are f16. Those of the K formats are products.
    pub fn f16_scales(&self) -> bool {
        self.block_len == 32
    }

    /// Bytes of `blocks` blocks on the device. The last group is padded to its full size.
    pub fn device_bytes(&self, blocks: usize) -> usize {
        let whole = blocks.checked_next_multiple_of(self.group);
        whole.unwrap_or(usize::MAX).saturating_mul(self.bytes)
    }

    /// Calls `copy(offset in file layout, offset in device layout, length)` for every field of every block.
    fn walk(&self, blocks: usize, mut copy: impl FnMut(usize, usize, usize)) {
        for block in 0..blocks {
            let group = block / self.group * self.group * self.bytes;
            let mut field = group;
            for &(start, end) in self.fields {
                let size = end - start;
                let to = field + block % self.group * size;
                copy(block * self.bytes + start, to, size);
                field += size * self.group;
            }
        }
    }

    /// Converts blocks from file layout to device layout.
    pub fn pack<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.group == 1 {
            return Cow::Borrowed(bytes);
        }
        let blocks = bytes.len() / self.bytes;
        let mut out = vec![0; self.device_bytes(blocks)];
        self.walk(blocks, |from, to, n| {
            out[to..to + n].copy_from_slice(&bytes[from..from + n]);
        });
        Cow::Owned(out)
    }

    /// Converts `blocks` blocks from device layout to file layout.
    pub fn unpack(&self, bytes: Vec<u8>, blocks: usize) -> Vec<u8> {
        if self.group == 1 {
            return bytes;
        }
        let mut out = vec![0; blocks * self.bytes];
        self.walk(blocks, |to, from, n| {
            out[to..to + n].copy_from_slice(&bytes[from..from + n]);
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_whole() {
        for (i, row) in QUANTS.iter().enumerate() {
            assert_eq!(row.quant as usize, i, "{}", row.name);
            let mut fields = row.fields.to_vec();
            fields.sort();
            let mut at = 0;
            for (start, end) in fields {
                assert_eq!(start, at, "{}", row.name);
                assert_eq!((end - start) * row.group % 16, 0, "{}", row.name);
                at = end;
            }
            assert_eq!(at, row.bytes, "{}", row.name);
        }
    }

    #[test]
    fn unpack_undoes_pack() {
        for row in QUANTS {
            for blocks in [0, 1, 7, 8, 9, 33] {
                let bytes: Vec<u8> = (0..blocks * row.bytes)
                    .map(|i| (i * 7 + i / 251) as u8)
                    .collect();
                let packed = row.pack(&bytes);
                assert_eq!(packed.len(), row.device_bytes(blocks));
                assert_eq!(
                    row.unpack(packed.into_owned(), blocks),
                    bytes,
                    "{}",
                    row.name
                );
            }
        }
    }
}
