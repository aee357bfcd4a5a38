// How flash and flash_coop read the block mask of a row tile.

// slots: stand-ins for what the kernels and their linker bring.
struct RowTile { block: u32, word_at: u32, word: u32 }
@group(0) @binding(6) var<storage, read> block_mask: array<u32>;
fn always_visible() -> u32 { return 0u; }
// end slots

// For the 32 keys from j on: bit 0, whether the mask leaves a score visible, bit 1, whether it changes one. A word has the bits of 512 keys,
// and is read once, since each step over the keys would wait for it.
fn block_bits(own: ptr<function, RowTile>, j: u32) -> u32 {
    let at = (*own).block + j / 512u;
    if at != (*own).word_at {
        (*own).word_at = at;
        (*own).word = block_mask[at] | always_visible();
    }
    return (*own).word >> (j / 32u * 2u % 32u);
}
