// Operators on i64 as (low, high) words in two's complement.

fn i64_neg(v: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(~v.x + 1u, ~v.y + u32(v.x == 0u));
}

fn i64_negative(v: vec2<u32>) -> bool { return (v.y >> 31u) != 0u; }

// Unsigned order.
fn i64_below(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

// Signed order: unsigned with the sign bit flipped.
fn i64_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    let ah = a.y ^ 0x80000000u;
    let bh = b.y ^ 0x80000000u;
    return ah < bh || (ah == bh && a.x < b.x);
}

// The 64 bits of a product of words, by halves of 16 bits.
fn i64_wide(a: u32, b: u32) -> vec2<u32> {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let low = al * bl;
    let mid = ah * bl + (low >> 16u);
    let cross = al * bh + (mid & 0xffffu);
    return vec2<u32>((cross << 16u) | (low & 0xffffu), ah * bh + (mid >> 16u) + (cross >> 16u));
}

// Unsigned division, a bit at a time where a word is not enough; b is not zero.
fn i64_quotient(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if a.y == 0u && b.y == 0u { return vec2<u32>(a.x / max(b.x, 1u), 0u); }
    var rest = vec2<u32>(0u);
    var quotient = a;
    for (var i = 0u; i < 64u; i++) {
        let carry = rest.y >> 31u;
        rest = vec2<u32>((rest.x << 1u) | (quotient.y >> 31u), (rest.y << 1u) | (rest.x >> 31u));
        quotient = vec2<u32>(quotient.x << 1u, (quotient.y << 1u) | (quotient.x >> 31u));
        if carry != 0u || !i64_below(rest, b) {
            rest = bsub(rest, b);
            quotient.x |= 1u;
        }
    }
    return quotient;
}

fn uabs(v: vec2<u32>) -> vec2<u32> { return select(v, i64_neg(v), i64_negative(v)); }
fn uceil(v: vec2<u32>) -> vec2<u32> { return v; }
fn ufloor(v: vec2<u32>) -> vec2<u32> { return v; }
fn uround(v: vec2<u32>) -> vec2<u32> { return v; }
fn urelu(v: vec2<u32>) -> vec2<u32> { return select(v, vec2<u32>(0u), i64_negative(v)); }
fn usign(v: vec2<u32>) -> vec2<u32> {
    if i64_negative(v) { return vec2<u32>(0xffffffffu); }
    return vec2<u32>(u32((v.x | v.y) != 0u), 0u);
}
fn affine(v: vec2<u32>, a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return badd(bmul(v, a), b); }

fn badd(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + u32(low < a.x));
}
fn bsub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}
fn bmul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = i64_wide(a.x, b.x);
    return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}
// Truncates; division by zero gives 0, and the least value by -1 wraps.
fn bdiv(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if (b.x | b.y) == 0u { return vec2<u32>(0u); }
    let quotient = i64_quotient(uabs(a), uabs(b));
    return select(quotient, i64_neg(quotient), i64_negative(a) != i64_negative(b));
}
fn bminimum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, i64_less(b, a)); }
fn bmaximum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, i64_less(a, b)); }

fn eq(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(all(a == b)); }
fn ne(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(any(a != b)); }
fn le(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(!i64_less(b, a)); }
fn ge(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(!i64_less(a, b)); }
fn lt(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(i64_less(a, b)); }
fn gt(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(i64_less(b, a)); }

// For reductions: see op/f32.wgsl.
fn reduce_sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return badd(a, b); }
fn reduce_min_takes(a: vec2<u32>, b: vec2<u32>) -> bool { return i64_less(b, a); }
fn reduce_max_takes(a: vec2<u32>, b: vec2<u32>) -> bool { return i64_less(a, b); }
fn reduce_poison(v: vec2<u32>) -> bool { return false; }
// An unsigned key in the order of sorting.
fn sort_key(v: vec2<u32>) -> vec2<u32> { return vec2<u32>(v.x, v.y ^ 0x80000000u); }
