// Operators on f64 as (low, high) words, in integer arithmetic: the same bits on every adapter, browsers included. Sums,
// products, quotients and roots round to nearest, ties to even; subnormals, infinities and NaN are IEEE's.

const F64_ONE = vec2<u32>(0u, 0x3ff00000u);
const F64_HALF = vec2<u32>(0u, 0x3fe00000u);
const F64_TWO = vec2<u32>(0u, 0x40000000u);
const F64_INF = vec2<u32>(0u, 0x7ff00000u);
const F64_NAN = vec2<u32>(0u, 0x7ff80000u);

fn f64_sign(v: vec2<u32>) -> u32 { return v.y & 0x80000000u; }
fn f64_is_nan(v: vec2<u32>) -> bool {
    let high = v.y & 0x7fffffffu;
    return high > 0x7ff00000u || (high == 0x7ff00000u && v.x != 0u);
}
fn f64_is_zero(v: vec2<u32>) -> bool { return (v.x | (v.y & 0x7fffffffu)) == 0u; }
fn f64_signed(v: vec2<u32>, sign: u32) -> vec2<u32> { return vec2<u32>(v.x, (v.y & 0x7fffffffu) | sign); }

// 64-bit integers.
fn f64_below(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }
fn f64_plus(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + u32(low < a.x));
}
fn f64_minus(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return vec2<u32>(a.x - b.x, a.y - b.y - u32(a.x < b.x)); }
fn f64_zeros(v: vec2<u32>) -> u32 { return select(countLeadingZeros(v.y), 32u + countLeadingZeros(v.x), v.y == 0u); }
fn f64_up(v: vec2<u32>, n: u32) -> vec2<u32> {
    if n == 0u { return v; }
    if n >= 32u { return vec2<u32>(0u, v.x << (n - 32u)); }
    return vec2<u32>(v.x << n, (v.y << n) | (v.x >> (32u - n)));
}
// Shifts right; the last bit records whether ones were shifted out.
fn f64_down(v: vec2<u32>, n: u32) -> vec2<u32> {
    if n == 0u { return v; }
    if n < 32u {
        let lost = u32((v.x << (32u - n)) != 0u);
        return vec2<u32>((v.x >> n) | (v.y << (32u - n)) | lost, v.y >> n);
    }
    if n == 32u { return vec2<u32>(v.y | u32(v.x != 0u), 0u); }
    if n < 64u { return vec2<u32>((v.y >> (n - 32u)) | u32(((v.y << (64u - n)) | v.x) != 0u), 0u); }
    return vec2<u32>(u32((v.x | v.y) != 0u), 0u);
}
// The product of two words.
fn f64_wide(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let mid = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let cross = (a & 0xffffu) * (b >> 16u) + (mid & 0xffffu);
    return vec2<u32>((cross << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (mid >> 16u) + (cross >> 16u));
}
// The upper half of the product of two pairs; the last bit records whether the lower half has ones.
fn f64_high(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = f64_wide(a.x, b.x);
    let mid = f64_plus(f64_wide(a.x, b.y), vec2<u32>(low.y, 0u));
    let cross = f64_plus(f64_wide(a.y, b.x), vec2<u32>(mid.x, 0u));
    let high = f64_plus(f64_plus(f64_wide(a.y, b.y), vec2<u32>(mid.y, 0u)), vec2<u32>(cross.y, 0u));
    return high | vec2<u32>(u32((low.x | cross.x) != 0u), 0u);
}

// |v| = m / 2^63 * 2^(e - 1023) with the leading one of m on top, for v that is finite and not zero.
struct F64Parts { e: i32, m: vec2<u32> }
fn f64_parts(v: vec2<u32>) -> F64Parts {
    let e = (v.y >> 20u) & 0x7ffu;
    let fraction = vec2<u32>(v.x, v.y & 0xfffffu);
    if e != 0u { return F64Parts(i32(e), f64_up(fraction | vec2<u32>(0u, 0x100000u), 11u)); }
    let zeros = f64_zeros(fraction);
    return F64Parts(12i - i32(zeros), f64_up(fraction, zeros));
}
// The nearest value; the last bits of m may stand for what was lost.
fn f64_round(sign: u32, e: i32, m: vec2<u32>) -> vec2<u32> {
    if e >= 2047i { return F64_INF | vec2<u32>(0u, sign); }
    var kept = m;
    if e < 1i { kept = f64_down(m, u32(min(1i - e, 64i))); }
    let rest = kept.x & 0x7ffu;
    let last = (kept.x >> 11u) & 1u;
    let v = vec2<u32>((kept.x >> 11u) | (kept.y << 21u), kept.y >> 11u);
    let up = u32(rest > 0x400u || (rest == 0x400u && last != 0u));
    // The leading one, and a carry out of the mantissa, raise the exponent as they should.
    return f64_plus(v, vec2<u32>(up, sign + (u32(max(e - 1i, 0i)) << 20u)));
}
// v * 2^k.
fn f64_scaled(v: vec2<u32>, k: i32) -> vec2<u32> {
    if f64_is_zero(v) || (v.y & 0x7ff00000u) == 0x7ff00000u { return v; }
    let parts = f64_parts(v);
    return f64_round(f64_sign(v), parts.e + k, parts.m);
}
fn f64_of_int(n: i32) -> vec2<u32> {
    if n == 0i { return vec2<u32>(0u); }
    let m = vec2<u32>(0u, u32(abs(n)));
    let zeros = f64_zeros(m);
    return f64_round(bitcast<u32>(n) & 0x80000000u, 1054i - i32(zeros), f64_up(m, zeros));
}
// Towards zero, for |v| < 2^31.
fn f64_int(v: vec2<u32>) -> i32 {
    let e = (v.y >> 20u) & 0x7ffu;
    if e < 1023u { return 0i; }
    let top = ((v.y & 0xfffffu) << 11u) | (v.x >> 21u) | 0x80000000u;
    let n = i32(top >> (1054u - min(e, 1053u)));
    return select(n, -n, f64_sign(v) != 0u);
}
fn f64_nearest(v: vec2<u32>) -> i32 { return f64_int(badd(v, f64_signed(F64_HALF, f64_sign(v)))); }

fn badd(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let swap = f64_below(f64_signed(a, 0u), f64_signed(b, 0u));
    let u = select(a, b, swap); // the greater magnitude
    let v = select(b, a, swap);
    let differ = f64_sign(a) != f64_sign(b);
    if (u.y & 0x7ff00000u) == 0x7ff00000u {
        if f64_is_nan(u) || (differ && (v.y & 0x7ff00000u) == 0x7ff00000u) { return F64_NAN; }
        return u;
    }
    // One bit is left for a carry.
    let ue = max((u.y >> 20u) & 0x7ffu, 1u);
    let ve = max((v.y >> 20u) & 0x7ffu, 1u);
    let um = f64_up(vec2<u32>(u.x, (u.y & 0xfffffu) | (u32((u.y & 0x7ff00000u) != 0u) << 20u)), 10u);
    let vm = f64_down(f64_up(vec2<u32>(v.x, (v.y & 0xfffffu) | (u32((v.y & 0x7ff00000u) != 0u) << 20u)), 10u), ue - ve);
    let m = select(f64_plus(um, vm), f64_minus(um, vm), differ);
    if (m.x | m.y) == 0u { return vec2<u32>(0u, select(f64_sign(a), 0u, differ)); }
    let zeros = f64_zeros(m);
    return f64_round(f64_sign(u), i32(ue) + 1i - i32(zeros), f64_up(m, zeros));
}
fn bsub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return badd(a, uneg(b)); }
fn bmul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let sign = f64_sign(a) ^ f64_sign(b);
    let zero = f64_is_zero(a) || f64_is_zero(b);
    if (a.y & 0x7ff00000u) == 0x7ff00000u || (b.y & 0x7ff00000u) == 0x7ff00000u {
        if zero || f64_is_nan(a) || f64_is_nan(b) { return F64_NAN; }
        return F64_INF | vec2<u32>(0u, sign);
    }
    if zero { return vec2<u32>(0u, sign); }
    let u = f64_parts(a);
    let v = f64_parts(b);
    let m = f64_high(u.m, v.m);
    let zeros = countLeadingZeros(m.y);
    return f64_round(sign, u.e + v.e - 1022i - i32(zeros), f64_up(m, zeros));
}
fn bdiv(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let sign = f64_sign(a) ^ f64_sign(b);
    let a_inf = (a.y & 0x7ff00000u) == 0x7ff00000u;
    let b_inf = (b.y & 0x7ff00000u) == 0x7ff00000u;
    if f64_is_nan(a) || f64_is_nan(b) || (a_inf && b_inf) || (f64_is_zero(a) && f64_is_zero(b)) { return F64_NAN; }
    if a_inf || f64_is_zero(b) { return F64_INF | vec2<u32>(0u, sign); }
    if b_inf || f64_is_zero(a) { return vec2<u32>(0u, sign); }
    let u = f64_parts(a);
    let v = f64_parts(b);
    let by = f64_down(v.m, 11u);
    var rest = f64_down(u.m, 11u);
    var e = u.e - v.e + 1023i;
    if f64_below(rest, by) {
        rest = f64_up(rest, 1u);
        e -= 1i;
    }
    var q = vec2<u32>(0u);
    for (var i = 0u; i < 56u; i++) {
        q = f64_up(q, 1u);
        if !f64_below(rest, by) {
            rest = f64_minus(rest, by);
            q.x |= 1u;
        }
        rest = f64_up(rest, 1u);
    }
    return f64_round(sign, e, f64_up(q, 8u) | vec2<u32>(u32((rest.x | rest.y) != 0u), 0u));
}
fn usqrt(v: vec2<u32>) -> vec2<u32> {
    if f64_is_zero(v) || f64_is_nan(v) { return v; }
    if f64_sign(v) != 0u { return F64_NAN; }
    if v.y == 0x7ff00000u { return v; }
    let parts = f64_parts(v);
    let odd = (parts.e & 1i) == 0i; // of the exponent without its bias
    // Two bits of the mantissa, which has one or two before the point, give one of the root.
    var m = select(f64_down(parts.m, 1u), parts.m, odd);
    var root = vec2<u32>(0u);
    var rest = vec2<u32>(0u);
    for (var i = 0u; i < 56u; i++) {
        rest = f64_up(rest, 2u) | vec2<u32>(m.y >> 30u, 0u);
        m = f64_up(m, 2u);
        let trial = f64_up(root, 2u) | vec2<u32>(1u, 0u);
        root = f64_up(root, 1u);
        if !f64_below(rest, trial) {
            rest = f64_minus(rest, trial);
            root.x |= 1u;
        }
    }
    let e = (parts.e - 1023i) >> 1u;
    return f64_round(0u, e + 1023i, f64_up(root, 8u) | vec2<u32>(u32((rest.x | rest.y) != 0u), 0u));
}

// Order: both zeros are equal.
fn f64_key(v: vec2<u32>) -> vec2<u32> {
    if f64_is_zero(v) { return vec2<u32>(0u, 0x80000000u); }
    return select(v ^ vec2<u32>(0u, 0x80000000u), ~v, f64_sign(v) != 0u);
}
fn f64_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return !f64_is_nan(a) && !f64_is_nan(b) && f64_below(f64_key(a), f64_key(b));
}
fn eq(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(!f64_is_nan(a) && all(f64_key(a) == f64_key(b))); }
fn ne(a: vec2<u32>, b: vec2<u32>) -> u32 { return 1u - eq(a, b); }
fn le(a: vec2<u32>, b: vec2<u32>) -> u32 { return lt(a, b) | eq(a, b); }
fn ge(a: vec2<u32>, b: vec2<u32>) -> u32 { return le(b, a); }
fn lt(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(f64_less(a, b)); }
fn gt(a: vec2<u32>, b: vec2<u32>) -> u32 { return u32(f64_less(b, a)); }
fn bminimum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, f64_less(b, a)); }
fn bmaximum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return select(a, b, f64_less(a, b)); }

// For reductions: see op/f32.wgsl.
fn reduce_sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return badd(a, b); }
fn reduce_min_takes(a: vec2<u32>, b: vec2<u32>) -> bool { return f64_less(b, a) || (f64_is_nan(a) && !f64_is_nan(b)); }
fn reduce_max_takes(a: vec2<u32>, b: vec2<u32>) -> bool { return f64_less(a, b) || (f64_is_nan(a) && !f64_is_nan(b)); }
fn reduce_poison(v: vec2<u32>) -> bool { return f64_is_nan(v); }
// The order of sorting: an unsigned key; NaN is the greatest.
fn sort_key(v: vec2<u32>) -> vec2<u32> { return select(f64_key(v), vec2<u32>(0xffffffffu), f64_is_nan(v)); }

fn f64_trunc(v: vec2<u32>) -> vec2<u32> {
    let e = (v.y >> 20u) & 0x7ffu;
    if e < 1023u { return vec2<u32>(0u, f64_sign(v)); }
    if e >= 1075u { return v; }
    if e < 1043u { return vec2<u32>(0u, v.y & ~(0xfffffu >> (e - 1023u))); }
    return vec2<u32>(v.x & ~(0xffffffffu >> (e - 1043u)), v.y);
}
// The whole number next to v on the side of `sign`.
fn f64_whole(v: vec2<u32>, sign: u32) -> vec2<u32> {
    let t = f64_trunc(v);
    if all(t == v) || f64_sign(v) != sign { return t; }
    return badd(t, f64_signed(F64_ONE, sign));
}
fn uceil(v: vec2<u32>) -> vec2<u32> { return f64_whole(v, 0u); }
fn ufloor(v: vec2<u32>) -> vec2<u32> { return f64_whole(v, 0x80000000u); }
// Half away from zero.
fn uround(v: vec2<u32>) -> vec2<u32> {
    let t = f64_trunc(v);
    if f64_below(uabs(bsub(v, t)), F64_HALF) || f64_is_nan(v) || uabs(v).y >= 0x43300000u { return t; }
    return badd(t, f64_signed(F64_ONE, f64_sign(v)));
}
fn uabs(v: vec2<u32>) -> vec2<u32> { return f64_signed(v, 0u); }
fn uneg(v: vec2<u32>) -> vec2<u32> { return v ^ vec2<u32>(0u, 0x80000000u); }
fn urelu(v: vec2<u32>) -> vec2<u32> { return select(vec2<u32>(0u), v, f64_sign(v) == 0u && !f64_is_nan(v)); }
fn usign(v: vec2<u32>) -> vec2<u32> {
    if f64_is_zero(v) || f64_is_nan(v) { return vec2<u32>(0u); }
    return f64_signed(F64_ONE, f64_sign(v));
}
fn usqr(v: vec2<u32>) -> vec2<u32> { return bmul(v, v); }
fn urecip(v: vec2<u32>) -> vec2<u32> { return bdiv(F64_ONE, v); }
fn affine(v: vec2<u32>, a: vec2<u32>, b: vec2<u32>) -> vec2<u32> { return badd(bmul(v, a), b); }

// (e^x - 1 - x) / x^2 for |x| <= ln(2) / 2.
fn f64_exp_rest(x: vec2<u32>) -> vec2<u32> {
    var c = array<vec2<u32>, 12>(
        vec2<u32>(0x13a86d09u, 0x3de61246u), vec2<u32>(0xeff8d898u, 0x3e21eed8u), vec2<u32>(0x67f544e4u, 0x3e5ae645u),
        vec2<u32>(0xb7789f5cu, 0x3e927e4fu), vec2<u32>(0xa556c734u, 0x3ec71de3u), vec2<u32>(0x1a01a01au, 0x3efa01a0u),
        vec2<u32>(0x1a01a01au, 0x3f2a01a0u), vec2<u32>(0x16c16c17u, 0x3f56c16cu), vec2<u32>(0x11111111u, 0x3f811111u),
        vec2<u32>(0x55555555u, 0x3fa55555u), vec2<u32>(0x55555555u, 0x3fc55555u), vec2<u32>(0x00000000u, 0x3fe00000u),
    );
    var y = c[0];
    for (var i = 1u; i < 12u; i++) { y = badd(bmul(y, x), c[i]); }
    return y;
}
// e^r * 2^n for |r| <= ln(2) / 2.
fn f64_exp_scaled(r: vec2<u32>, n: i32) -> vec2<u32> {
    return f64_scaled(badd(F64_ONE, badd(r, bmul(bmul(r, r), f64_exp_rest(r)))), n);
}
fn uexp(v: vec2<u32>) -> vec2<u32> {
    if f64_is_nan(v) { return v; }
    if uabs(v).y >= 0x40880000u { return select(F64_INF, vec2<u32>(0u), f64_sign(v) != 0u); } // from 768 on
    let n = f64_nearest(bmul(v, vec2<u32>(0x652b82feu, 0x3ff71547u)));
    // ln(2) in two parts, the first short enough that its product with n is exact.
    let whole = f64_of_int(n);
    let high = bsub(v, bmul(whole, vec2<u32>(0xfefa3800u, 0x3fe62e42u)));
    return f64_exp_scaled(bsub(high, bmul(whole, vec2<u32>(0x93c76730u, 0x3d2ef357u))), n);
}
// e^v - 1.
fn f64_expm1(v: vec2<u32>) -> vec2<u32> {
    if uabs(v).y < 0x3fd62e42u { return badd(v, bmul(bmul(v, v), f64_exp_rest(v))); }
    return bsub(uexp(v), F64_ONE);
}

// (ln((1 + s) / (1 - s)) / s - 2) / x for x = s^2, s^2 <= 0.03.
fn f64_log_rest(x: vec2<u32>) -> vec2<u32> {
    var c = array<vec2<u32>, 11>(
        vec2<u32>(0x590b2164u, 0x3fb642c8u), vec2<u32>(0x18618618u, 0x3fb86186u), vec2<u32>(0xbca1af28u, 0x3fbaf286u),
        vec2<u32>(0x1e1e1e1eu, 0x3fbe1e1eu), vec2<u32>(0x11111111u, 0x3fc11111u), vec2<u32>(0x13b13b14u, 0x3fc3b13bu),
        vec2<u32>(0x745d1746u, 0x3fc745d1u), vec2<u32>(0x1c71c71cu, 0x3fcc71c7u), vec2<u32>(0x92492492u, 0x3fd24924u),
        vec2<u32>(0x9999999au, 0x3fd99999u), vec2<u32>(0x55555555u, 0x3fe55555u),
    );
    var y = c[0];
    for (var i = 1u; i < 11u; i++) { y = badd(bmul(y, x), c[i]); }
    return y;
}
// v = 2^k * (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), for finite v > 0.
struct F64Log { k: i32, f: vec2<u32> }
fn f64_log_parts(v: vec2<u32>) -> F64Log {
    let parts = f64_parts(v);
    let one = f64_round(0u, 1023i, parts.m);
    let over = u32(!f64_below(one, vec2<u32>(0x667f3bcdu, 0x3ff6a09eu)));
    return F64Log(parts.e - 1023i + i32(over), bsub(f64_scaled(one, -i32(over)), F64_ONE));
}
// ln(1 + f) + low for the f of f64_log_parts and a small number.
fn f64_log_of(f: vec2<u32>, low: vec2<u32>) -> vec2<u32> {
    let s = bdiv(f, badd(F64_TWO, f));
    let z = bmul(s, s);
    let half = bmul(F64_HALF, bmul(f, f));
    let rest = badd(bmul(s, badd(half, bmul(z, f64_log_rest(z)))), low);
    return bsub(f, bsub(half, rest));
}
fn ulog(v: vec2<u32>) -> vec2<u32> {
    if f64_is_zero(v) { return vec2<u32>(0u, 0xfff00000u); }
    if f64_is_nan(v) || f64_sign(v) != 0u { return F64_NAN; }
    if v.y >= 0x7ff00000u { return v; }
    let parts = f64_log_parts(v);
    let k = f64_of_int(parts.k);
    let rest = f64_log_of(parts.f, bmul(k, vec2<u32>(0x93c76730u, 0x3d2ef357u)));
    return badd(bmul(k, vec2<u32>(0xfefa3800u, 0x3fe62e42u)), rest);
}

struct F64Turn { r: vec2<u32>, quarter: u32 }
// v = r + quarter * pi / 2 with |r| <= pi / 4 for finite v. Exact: the bits of 2 / pi before those that are
// multiplied only add whole turns (Payne and Hanek).
fn f64_turn(v: vec2<u32>) -> F64Turn {
    if uabs(v).y < 0x3fe921fbu { return F64Turn(v, 0u); }
    var table = array<u32, 40>(
        0x00000000u, 0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u,
        0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu,
        0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu,
        0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du,
        0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu,
    );
    let shift = ((v.y >> 20u) & 0x7ffu) - 1013u;
    let first = shift / 32u;
    let by = shift % 32u;
    // Six words of 2 / pi, the lowest first, times the mantissa; what is above four quarter turns falls off.
    var turns = array<u32, 6>();
    let low = v.x;
    let high = (v.y & 0xfffffu) | 0x100000u;
    var before = 0u;
    var carry = 0u;
    var carry_high = 0u;
    for (var i = 0u; i < 6u; i++) {
        let at = first + 5u - i;
        var word = table[at];
        if by > 0u { word = (word << by) | (table[at + 1u] >> (32u - by)); }
        let a = f64_plus(f64_wide(word, low), vec2<u32>(carry, 0u));
        let b = f64_plus(f64_plus(f64_wide(before, high), vec2<u32>(carry_high, 0u)), vec2<u32>(a.x, 0u));
        turns[i] = b.x;
        carry = a.y;
        carry_high = b.y;
        before = word;
    }
    var quarter = turns[5] >> 30u;
    var m = vec4<u32>(turns[5] & 0x3fffffffu, turns[4], turns[3], turns[2]);
    let back = (m.x >> 29u) != 0u;
    if back {
        quarter += 1u;
        m = vec4<u32>(0x3fffffffu - m.x, ~m.yzw);
    }
    var e = 1025i;
    for (var i = 0u; i < 2u && m.x == 0u; i++) {
        m = vec4<u32>(m.yzw, 0u);
        e -= 32i;
    }
    let zeros = countLeadingZeros(m.x | 1u);
    let top = f64_up(m.yx, zeros) | vec2<u32>((m.z >> 1u) >> (31u - zeros), 0u);
    let product = f64_high(top, vec2<u32>(0x2168c234u, 0xc90fdaa2u));
    let more = countLeadingZeros(product.y | 1u);
    let negative = f64_sign(v) != 0u;
    let sign = select(0u, 0x80000000u, back != negative);
    let r = f64_round(sign, e - i32(zeros + more), f64_up(product, more));
    return F64Turn(r, select(quarter, 0u - quarter, negative));
}

// (sin(r) / r - 1) / x for x = r^2, |r| <= pi / 4.
fn f64_sin_rest(x: vec2<u32>) -> vec2<u32> {
    var c = array<vec2<u32>, 8>(
        vec2<u32>(0x7030ad4au, 0x3ce952c7u), vec2<u32>(0xe733b81fu, 0xbd6ae7f3u), vec2<u32>(0x13a86d09u, 0x3de61246u),
        vec2<u32>(0x67f544e4u, 0xbe5ae645u), vec2<u32>(0xa556c734u, 0x3ec71de3u), vec2<u32>(0x1a01a01au, 0xbf2a01a0u),
        vec2<u32>(0x11111111u, 0x3f811111u), vec2<u32>(0x55555555u, 0xbfc55555u),
    );
    var y = c[0];
    for (var i = 1u; i < 8u; i++) { y = badd(bmul(y, x), c[i]); }
    return y;
}
// (cos(r) - 1 + x / 2) / x^2 for x = r^2, |r| <= pi / 4.
fn f64_cos_rest(x: vec2<u32>) -> vec2<u32> {
    var c = array<vec2<u32>, 7>(
        vec2<u32>(0xe733b81fu, 0x3d2ae7f3u), vec2<u32>(0xa8c07c9du, 0xbda93974u), vec2<u32>(0xeff8d898u, 0x3e21eed8u),
        vec2<u32>(0xb7789f5cu, 0xbe927e4fu), vec2<u32>(0x1a01a01au, 0x3efa01a0u), vec2<u32>(0x16c16c17u, 0xbf56c16cu),
        vec2<u32>(0x55555555u, 0x3fa55555u),
    );
    var y = c[0];
    for (var i = 1u; i < 7u; i++) { y = badd(bmul(y, x), c[i]); }
    return y;
}
fn f64_sin_quarter(turn: F64Turn, quarter: u32) -> vec2<u32> {
    let z = bmul(turn.r, turn.r);
    var y: vec2<u32>;
    if (quarter & 1u) == 0u {
        y = badd(turn.r, bmul(bmul(turn.r, z), f64_sin_rest(z)));
    } else {
        let half = bmul(F64_HALF, z);
        let near = bsub(F64_ONE, half);
        let lost = bsub(bsub(F64_ONE, near), half);
        y = badd(near, badd(lost, bmul(bmul(z, z), f64_cos_rest(z))));
    }
    return y ^ vec2<u32>(0u, (quarter & 2u) << 30u);
}
fn usin(v: vec2<u32>) -> vec2<u32> {
    if (v.y & 0x7ff00000u) == 0x7ff00000u { return F64_NAN; }
    let turn = f64_turn(v);
    return f64_sin_quarter(turn, turn.quarter);
}
fn ucos(v: vec2<u32>) -> vec2<u32> {
    if (v.y & 0x7ff00000u) == 0x7ff00000u { return F64_NAN; }
    let turn = f64_turn(v);
    return f64_sin_quarter(turn, turn.quarter + 1u);
}

fn utanh(v: vec2<u32>) -> vec2<u32> {
    if f64_is_nan(v) { return v; }
    let a = uabs(v);
    if a.y >= 0x40360000u { return f64_signed(F64_ONE, f64_sign(v)); } // from 22 on
    let t = f64_expm1(f64_scaled(a, 1i));
    return f64_signed(bdiv(t, badd(t, F64_TWO)), f64_sign(v));
}

// erf(v) / v for x = v^2 <= 1.
fn f64_erf_near(x: vec2<u32>) -> vec2<u32> {
    var c = array<vec2<u32>, 18>(
        vec2<u32>(0xaf3447f6u, 0xbc9a2007u), vec2<u32>(0x537f4765u, 0x3cdd70b3u), vec2<u32>(0x71a885cfu, 0xbd1f56f0u),
        vec2<u32>(0xe4a97007u, 0x3d5f683au), vec2<u32>(0xcb0c46eau, 0xbd9d8453u), vec2<u32>(0x5e55a730u, 0x3dd9e6adu),
        vec2<u32>(0x81c5d36du, 0xbe151d71u), vec2<u32>(0x20624c1cu, 0x3e4fcc57u), vec2<u32>(0xec43e71au, 0xbe85f742u),
        vec2<u32>(0x9dc651a3u, 0x3ebb9e6cu), vec2<u32>(0xc3e0c2ebu, 0xbeef4d25u), vec2<u32>(0x6f9b89b7u, 0x3f1f9a32u),
        vec2<u32>(0x40040b86u, 0xbf4c02dbu), vec2<u32>(0xd0e6a53fu, 0x3f7565bcu), vec2<u32>(0x31288b51u, 0xbf9b82ceu),
        vec2<u32>(0x1a042be2u, 0x3fbce2f2u), vec2<u32>(0x6b0379e7u, 0xbfd81274u), vec2<u32>(0x50429b6du, 0x3ff20dd7u),
    );
    var y = c[0];
    for (var i = 1u; i < 18u; i++) { y = badd(bmul(y, x), c[i]); }
    return y;
}
// (1 - erf(v)) e^(v^2) for x = (v - 3) / (v + 3) and v from 1 to 6.
fn f64_erf_far(x: vec2<u32>) -> vec2<u32> {
    var c = array<vec2<u32>, 16>(
        vec2<u32>(0x46d4ac3cu, 0xbe42e699u), vec2<u32>(0x26a8d44eu, 0x3eb51b78u), vec2<u32>(0x001df111u, 0x3ec0db66u),
        vec2<u32>(0x7b811d91u, 0xbee0c9a2u), vec2<u32>(0xc13a4563u, 0xbeeaef51u), vec2<u32>(0x7c3cd101u, 0x3f10cb27u),
        vec2<u32>(0x094abb88u, 0x3f07b9e4u), vec2<u32>(0xf14cbfddu, 0xbf439085u), vec2<u32>(0x03018692u, 0x3f473102u),
        vec2<u32>(0x90a41a56u, 0x3f717c83u), vec2<u32>(0xeb61c0e8u, 0xbf98fa58u), vec2<u32>(0x3b00dfa6u, 0x3fb258b1u),
        vec2<u32>(0xbef08a32u, 0xbfc336ffu), vec2<u32>(0x04105a16u, 0x3fcf6ff2u), vec2<u32>(0xb9cf8514u, 0xbfd4e102u),
        vec2<u32>(0x7d229d2du, 0x3fc6e982u),
    );
    var y = c[0];
    for (var i = 1u; i < 16u; i++) { y = badd(bmul(y, x), c[i]); }
    return y;
}
fn uerf(v: vec2<u32>) -> vec2<u32> {
    if f64_is_nan(v) { return v; }
    let a = uabs(v);
    if a.y >= 0x40180000u { return f64_signed(F64_ONE, f64_sign(v)); } // from 6 on
    let z = bmul(v, v);
    if a.y < 0x3ff00000u { return bmul(v, f64_erf_near(z)); }
    let three = vec2<u32>(0u, 0x40080000u);
    let rest = bmul(uexp(uneg(z)), f64_erf_far(bdiv(bsub(a, three), badd(a, three))));
    return f64_signed(bsub(F64_ONE, rest), f64_sign(v));
}

fn usigmoid(v: vec2<u32>) -> vec2<u32> {
    // The exponential of a negative number cannot overflow.
    let e = uexp(f64_signed(v, 0x80000000u));
    return bdiv(select(F64_ONE, e, f64_sign(v) != 0u), badd(F64_ONE, e));
}
fn usilu(v: vec2<u32>) -> vec2<u32> { return bmul(v, usigmoid(v)); }
fn ugelu(v: vec2<u32>) -> vec2<u32> {
    let inner = badd(F64_ONE, bmul(bmul(vec2<u32>(0x6d4801f7u, 0x3fa6e4e2u), v), v));
    let t = utanh(bmul(bmul(vec2<u32>(0x33d43651u, 0x3fe98845u), v), inner));
    return bmul(bmul(F64_HALF, v), badd(F64_ONE, t));
}
fn ugelu_erf(v: vec2<u32>) -> vec2<u32> {
    let e = uerf(bmul(v, vec2<u32>(0x667f3bcdu, 0x3fe6a09eu)));
    return bmul(bmul(F64_HALF, v), badd(F64_ONE, e));
}
fn elu(v: vec2<u32>, a: vec2<u32>) -> vec2<u32> {
    if f64_less(vec2<u32>(0u), v) { return v; }
    return bmul(a, f64_expm1(v));
}

fn powf(v: vec2<u32>, a: vec2<u32>) -> vec2<u32> {
    if f64_is_zero(a) || all(v == F64_ONE) { return F64_ONE; }
    let magnitude = uabs(a);
    let whole = all(f64_trunc(a) == a);
    if whole && f64_below(magnitude, vec2<u32>(1u, 0x40300000u)) { // up to 16
        var power = F64_ONE;
        var square = v;
        for (var n = f64_int(magnitude); n > 0i; n = n >> 1u) {
            if (n & 1i) != 0i { power = bmul(power, square); }
            square = bmul(square, square);
        }
        if f64_sign(a) != 0u { return bdiv(F64_ONE, power); }
        return power;
    }
    if all(a == F64_HALF) && f64_sign(v) == 0u { return usqrt(v); }
    let base = uabs(v);
    let infinite = base.y >= 0x7ff00000u;
    let negative = f64_sign(v) != 0u;
    if f64_is_nan(v) || f64_is_nan(a) || (negative && !whole && !infinite && !f64_is_zero(v)) { return F64_NAN; }
    // From 2^53 on every value is even.
    let even = magnitude.y >= 0x43400000u || all(f64_trunc(f64_scaled(a, -1i)) == f64_scaled(a, -1i));
    let sign = select(0u, 0x80000000u, negative && whole && !even);
    if f64_is_zero(base) || infinite {
        return select(vec2<u32>(0u), F64_INF, f64_is_zero(base) == (f64_sign(a) != 0u)) | vec2<u32>(0u, sign);
    }
    let parts = f64_log_parts(base);
    // Powers too large for the sums below.
    if magnitude.y >= 0x43f00000u {
        let grows = f64_below(F64_ONE, base) == (f64_sign(a) == 0u);
        if all(base == F64_ONE) { return F64_ONE | vec2<u32>(0u, sign); }
        return select(vec2<u32>(0u), F64_INF, grows) | vec2<u32>(0u, sign);
    }
    // log2(base) = k + l; the exact part of a * k stays separate, so that no bits of the fraction are lost.
    let k = f64_of_int(parts.k);
    let al = bmul(a, bmul(f64_log_of(parts.f, vec2<u32>(0u)), vec2<u32>(0x652b82feu, 0x3ff71547u)));
    let all_of_it = badd(bmul(a, k), al);
    if uabs(all_of_it).y >= 0x40930000u { // from 1216 on
        return select(F64_INF, vec2<u32>(0u), f64_sign(all_of_it) != 0u) | vec2<u32>(0u, sign);
    }
    let n = f64_nearest(all_of_it);
    let high = vec2<u32>(a.x & 0xf8000000u, a.y);
    let f = badd(bsub(bmul(high, k), f64_of_int(n)), badd(bmul(bsub(a, high), k), al));
    return f64_exp_scaled(bmul(f, vec2<u32>(0xfefa39efu, 0x3fe62e42u)), n) | vec2<u32>(0u, sign);
}
