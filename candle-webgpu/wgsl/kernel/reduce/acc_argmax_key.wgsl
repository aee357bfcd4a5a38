// The accumulator of an argmax or argmin of floats: an integer key and its position. Of equal values the first one wins; a NaN that
// comes first does, too.

// slots: f32 without NaN; the key is renamed for an argmin.
alias XV = f32;
alias YV = u32;
fn reduce_argmax_key(v: f32) -> i32 { return bitcast<i32>(v); }
fn reduce_poison(v: f32) -> bool { return false; }
// end slots

struct Acc { v: i32, r: u32 }
fn acc_of(v: XV, r: u32) -> Acc { return Acc(reduce_argmax_key(v), r); }
// Requires that all of a comes before b.
fn acc_next(a: Acc, b: Acc) -> Acc {
    if b.v > a.v { return b; }
    return a;
}
fn acc_join(a: Acc, b: Acc) -> Acc {
    if b.v > a.v || (b.v == a.v && b.r < a.r) { return b; }
    return a;
}
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return select(a.r, 0u, first && reduce_poison(v)); }
