// The accumulator of a sum.

// slots: f32.
alias XV = f32;
alias YV = f32;
fn reduce_sum(a: f32, b: f32) -> f32 { return a + b; }
// end slots

alias Acc = XV;
fn acc_of(v: XV, r: u32) -> Acc { return v; }
fn acc_join(a: Acc, b: Acc) -> Acc { return reduce_sum(a, b); }
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return a; }
