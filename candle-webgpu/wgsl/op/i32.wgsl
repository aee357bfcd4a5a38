// Operators on i32; i16 shares them and wraps when it is packed.

fn uabs(v: i32) -> i32 { return select(v, 0i - v, v < 0i); }
fn uceil(v: i32) -> i32 { return v; }
fn ufloor(v: i32) -> i32 { return v; }
fn uround(v: i32) -> i32 { return v; }
fn urelu(v: i32) -> i32 { return max(v, 0i); }
fn usign(v: i32) -> i32 { return select(i32(v > 0i), -1i, v < 0i); }
fn affine(v: i32, a: i32, b: i32) -> i32 { return v * a + b; }

fn badd(a: i32, b: i32) -> i32 { return a + b; }
fn bsub(a: i32, b: i32) -> i32 { return a - b; }
fn bmul(a: i32, b: i32) -> i32 { return a * b; }
// Truncates; division by zero gives 0, and the least value by -1 wraps: shaders run without the checks that would
// define them.
fn bdiv(a: i32, b: i32) -> i32 {
    if b == 0i { return 0i; }
    if b == -1i { return 0i - a; }
    return a / b;
}
fn bminimum(a: i32, b: i32) -> i32 { return min(a, b); }
fn bmaximum(a: i32, b: i32) -> i32 { return max(a, b); }

fn eq(a: i32, b: i32) -> u32 { return u32(a == b); }
fn ne(a: i32, b: i32) -> u32 { return u32(a != b); }
fn le(a: i32, b: i32) -> u32 { return u32(a <= b); }
fn ge(a: i32, b: i32) -> u32 { return u32(a >= b); }
fn lt(a: i32, b: i32) -> u32 { return u32(a < b); }
fn gt(a: i32, b: i32) -> u32 { return u32(a > b); }

// For reductions: see op/f32.wgsl.
fn reduce_sum(a: i32, b: i32) -> i32 { return a + b; }
fn reduce_min_takes(a: i32, b: i32) -> bool { return b < a; }
fn reduce_max_takes(a: i32, b: i32) -> bool { return b > a; }
fn reduce_poison(v: i32) -> bool { return false; }
// An unsigned key in the order of sorting.
fn sort_key(v: i32) -> u32 { return bitcast<u32>(v) ^ 0x80000000u; }
