// tile_place(thread, across): the row and the column of a thread of a matrix product, among threads `across` wide.

// slots: nothing.
// end slots

// 32 threads cover 4 rows by 8 columns so that each shares its column with its neighbour, and its row with the next pair. NVIDIA GPUs
// read 16 bytes for 16 threads at once if, of each pair i and i ^ 1, or i and i ^ 2, both read the same address.
fn tile_place(thread: u32, across: u32) -> vec2<u32> {
    let block = vec2<u32>(thread / 32u / (across / 8u), thread / 32u % (across / 8u));
    return block * vec2<u32>(4u, 8u) + vec2<u32>(thread % 2u + thread / 16u % 2u * 2u, thread / 2u % 8u);
}
