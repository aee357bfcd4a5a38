// The accumulator of an argmax or argmin of what has no integer key of 32 bits: a value and its position. Of equal values the first
// one wins.

// slots: u32; `reduce_max_takes` is renamed for an argmin.
alias XV = u32;
alias YV = u32;
fn reduce_max_takes(a: u32, b: u32) -> bool { return b > a; }
fn reduce_poison(v: u32) -> bool { return false; }
// end slots

struct Acc { v: XV, r: u32 }
fn acc_of(v: XV, r: u32) -> Acc { return Acc(v, r); }
// Requires that all of a comes before b.
fn acc_next(a: Acc, b: Acc) -> Acc {
    if reduce_max_takes(a.v, b.v) { return b; }
    return a;
}
fn acc_join(a: Acc, b: Acc) -> Acc {
    if reduce_max_takes(a.v, b.v) || (b.r < a.r && !reduce_max_takes(b.v, a.v)) { return b; }
    return a;
}
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return select(a.r, 0u, first && reduce_poison(v)); }
