// Access `Set` of a packed dtype. Neighbours in a word belong to other threads, so a word is changed by compare-and-swap.

// slots: a u8 operand, four elements in a word.
alias XV = u32;
@group(0) @binding(1) var<storage, read_write> x: array<atomic<u32>>;
fn u8_get(word: u32, lane: u32) -> u32 { return (word >> (8u * lane)) & 0xffu; }
fn u8_set(word: u32, lane: u32, v: u32) -> u32 { return (word & ~(0xffu << (8u * lane))) | (v << (8u * lane)); }
fn badd(a: u32, b: u32) -> u32 { return a + b; }
// end slots

fn x_get(i: u32) -> XV { return u8_get(atomicLoad(&x[i / 4u]), i % 4u); }
fn x_set(i: u32, v: XV) {
    var old = atomicLoad(&x[i / 4u]);
    loop {
        let swap = atomicCompareExchangeWeak(&x[i / 4u], old, u8_set(old, i % 4u, v));
        if swap.exchanged { break; }
        old = swap.old_value;
    }
}
fn x_add(i: u32, v: XV) {
    var old = atomicLoad(&x[i / 4u]);
    loop {
        let swap = atomicCompareExchangeWeak(&x[i / 4u], old, u8_set(old, i % 4u, badd(u8_get(old, i % 4u), v)));
        if swap.exchanged { break; }
        old = swap.old_value;
    }
}
