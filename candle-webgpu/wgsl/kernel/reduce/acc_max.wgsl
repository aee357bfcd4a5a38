// The accumulator of a maximum or minimum of what has no integer key of 32 bits.

// slots: u32; `reduce_max_takes` is renamed for a minimum.
alias XV = u32;
alias YV = u32;
fn reduce_max_takes(a: u32, b: u32) -> bool { return b > a; }
fn reduce_poison(v: u32) -> bool { return false; }
// end slots

alias Acc = XV;
fn acc_of(v: XV, r: u32) -> Acc { return v; }
fn acc_join(a: Acc, b: Acc) -> Acc { return select(a, b, reduce_max_takes(a, b)); }
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return select(a, v, first && reduce_poison(v)); }
