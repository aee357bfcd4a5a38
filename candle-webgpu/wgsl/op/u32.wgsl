// Operators on u32; u8 and u16 share them and wrap when they are packed.

fn uabs(v: u32) -> u32 { return v; }
fn uceil(v: u32) -> u32 { return v; }
fn ufloor(v: u32) -> u32 { return v; }
fn uround(v: u32) -> u32 { return v; }
fn urelu(v: u32) -> u32 { return v; }
fn usign(v: u32) -> u32 { return select(1u, 0u, v == 0u); }
fn affine(v: u32, a: u32, b: u32) -> u32 { return v * a + b; }

fn badd(a: u32, b: u32) -> u32 { return a + b; }
fn bsub(a: u32, b: u32) -> u32 { return a - b; }
fn bmul(a: u32, b: u32) -> u32 { return a * b; }
// Division by zero gives 0: shaders run without the checks that would define it.
fn bdiv(a: u32, b: u32) -> u32 { return select(a / max(b, 1u), 0u, b == 0u); }
fn bminimum(a: u32, b: u32) -> u32 { return min(a, b); }
fn bmaximum(a: u32, b: u32) -> u32 { return max(a, b); }

fn eq(a: u32, b: u32) -> u32 { return u32(a == b); }
fn ne(a: u32, b: u32) -> u32 { return u32(a != b); }
fn le(a: u32, b: u32) -> u32 { return u32(a <= b); }
fn ge(a: u32, b: u32) -> u32 { return u32(a >= b); }
fn lt(a: u32, b: u32) -> u32 { return u32(a < b); }
fn gt(a: u32, b: u32) -> u32 { return u32(a > b); }

// For reductions: see op/f32.wgsl.
fn reduce_sum(a: u32, b: u32) -> u32 { return a + b; }
fn reduce_min_takes(a: u32, b: u32) -> bool { return b < a; }
fn reduce_max_takes(a: u32, b: u32) -> bool { return b > a; }
fn reduce_poison(v: u32) -> bool { return false; }
// An unsigned key in the order of sorting.
fn sort_key(v: u32) -> u32 { return v; }
