//! Numbers generated from names: the same in every run and on every device.

/// Values in [-1, 1) that depend on `name` alone.
pub fn values(name: &str, count: usize) -> Vec<f32> {
    // FNV-1a names the sequence, splitmix64 draws it.
    let mut state = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 23) as f32 - 1.
    };
    std::iter::repeat_with(next).take(count).collect()
}
