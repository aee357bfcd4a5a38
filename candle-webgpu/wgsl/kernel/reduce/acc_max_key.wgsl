// The accumulator of a maximum or minimum of floats: an integer key in the order of the numbers. A NaN that comes first is the result.

// slots: f32 without NaN; `max` and the key are renamed for a minimum.
alias XV = f32;
alias YV = f32;
fn reduce_max_key(v: f32) -> i32 { return bitcast<i32>(v); }
fn reduce_of_key(key: i32) -> f32 { return bitcast<f32>(key); }
fn reduce_poison(v: f32) -> bool { return false; }
// end slots

alias Acc = i32;
fn acc_of(v: XV, r: u32) -> Acc { return reduce_max_key(v); }
fn acc_join(a: Acc, b: Acc) -> Acc { return max(a, b); }
fn acc_end(a: Acc, first: bool, v: XV) -> YV { return select(reduce_of_key(a), v, first && reduce_poison(v)); }
