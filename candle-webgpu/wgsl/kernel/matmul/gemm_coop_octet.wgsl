// The octets of a round of gemm_coop: which ones a thread loads, and where their quads lie in a tile.

// slots: stand-ins for what gemm_coop.wgsl provides.
const ROUND = 64u;
const HALF = 32u;
const PAD = 8u;
const THREADS = 128u;
const UNIT = 8u;
// end slots

// The order of accumulation is free, so the two quads of an octet lie in different halves of a round, at the same place: NVIDIA's compiler
// (driver 580) makes one store of 16 bytes of adjacent quads, and two of 8 are faster.

// The row or column, and the k, of a thread's octet i of a round. The order of lines along k puts the two lines of half a subgroup
// on different banks.
fn octet_at(thread: u32, i: u32, along_k: u32, size: u32) -> vec2<u32> {
    if along_k == 1u { return vec2<u32>(line_of(thread) + i * (THREADS / 8u), thread % 8u * 8u); }
    let of_half = size * HALF / 8u / THREADS;
    let line = row_of(thread, i % of_half, size);
    return vec2<u32>(thread % (size / 8u) * 8u, line / 4u * 8u + line % 4u + i / of_half * 4u);
}

// Where a thread's octet i lies, given its first one and how many lines behind it are in the matrix: rows or columns for octets along
// k, else k. Arrays of addresses, or of what lies between them, would take the registers of loads; the driver keeps none of a minimum of
// two values that each round changes.
fn octet_behind(first: u32, i: u32, line: u32, last: u32, along_k: u32, size: u32) -> u32 {
    if along_k == 0u { return first + octet_at(0u, i, 0u, size).y * line; }
    return min(first + i * (THREADS / 8u) * line, first + last * line);
}

fn line_of(thread: u32) -> u32 {
    let line = thread / 8u;
    return (line & 8u) | ((line & 1u) << 2u) | (line >> 1u & 3u);
}

// The row within a half, for octets across k.
fn row_of(thread: u32, i: u32, size: u32) -> u32 { return thread / (size / 8u) + i * (THREADS / (size / 8u)); }

// Clamps to the last row or column of the matrix, since results past its edges are not stored.
fn inside(at: u32, size: u32, along_k: u32) -> u32 {
    return min(at, size - select(UNIT, 1u, along_k == 1u));
}

// The offset of a thread's first quad of a half in a tile of `size` rows or columns, in quads.
fn first_slot(thread: u32, half: u32, along_k: u32, size: u32) -> u32 {
    if along_k == 1u { return (line_of(thread) * (ROUND + PAD) + half * HALF) / 4u + thread % 8u; }
    return ((row_of(thread, 0u, size) + half * HALF) * (size + PAD) + thread % (size / 8u) * 8u) / 4u;
}
