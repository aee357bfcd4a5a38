// Operators on f32; f16 and bf16 share them. WGSL's builtins may be off by many ULP and need
// not handle infinities and NaN, so these are polynomials fitted to a relative error below half an ULP; NaN is tested by its bits.

fn f32_of_bits(bits: u32) -> f32 { return bitcast<f32>(bits); }
fn f32_nan() -> f32 { return f32_of_bits(0x7fc00000u); }
fn f32_inf() -> f32 { return f32_of_bits(0x7f800000u); }
fn f32_is_nan(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u; }
// v unchanged, if n is a whole number: its last bit is 0, which compilers cannot know. Keeps them from joining the steps of a sum
// that relies on its roundings (`c - n * a - n * b` into `c - n * (a + b)`), which WGSL allows.
fn f32_kept(v: f32, n: f32) -> f32 { return bitcast<f32>(bitcast<u32>(v) | (bitcast<u32>(n) & 1u)); }
// An integer that orders as v does: both zeros are 0, and NaN lies beyond the infinities. Comparing keys keeps subnormals, which some
// drivers (NVIDIA's) flush to zero in arithmetic and in comparisons.
fn f32_key(v: f32) -> i32 {
    let bits = bitcast<i32>(v);
    let sign = bits >> 31u;
    return ((bits & 0x7fffffff) ^ sign) - sign;
}
fn f32_less(a: f32, b: f32) -> bool { return f32_key(a) < f32_key(b) && !f32_is_nan(a) && !f32_is_nan(b); }
fn f32_equal(a: f32, b: f32) -> bool { return f32_key(a) == f32_key(b) && !f32_is_nan(a); }
// The magnitude of a with the sign of b. Not as an operand of a choice by f32_is_nan(b): llvmpipe of Mesa 25.0.7 (LLVM 19.1.7) gets that
// wrong in some kernels (attention with a softcap).
fn f32_signed(a: f32, b: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(a) & 0x7fffffffu) | (bitcast<u32>(b) & 0x80000000u));
}

// e^r * 2^n for |r| <= ln(2) / 2 and |n| <= 160. In two steps, so that the result may be subnormal or infinite.
fn f32_exp_scaled(r: f32, n: f32) -> f32 {
    let q = fma(fma(fma(fma(0.001381314, r, 0.00836942), r, 0.041668456), r, 0.16666515), r, 0.49999994);
    let k = i32(n);
    let half = k >> 1u;
    let e = 1.0 + fma(r * r, q, r);
    return e * bitcast<f32>((half + 127) << 23u) * bitcast<f32>((k - half + 127) << 23u);
}

fn uexp(v: f32) -> f32 {
    let c = select(select(v, 89.0, v > 89.0), -104.0, v < -104.0);
    let n = round(c * 1.442695);
    // ln(2) in two parts, the first short enough that its product with n is exact.
    let e = f32_exp_scaled(f32_kept(c - n * 0.693359375, n) + n * 0.00021219444, n);
    // Some drivers make a minimum of the selection above, which drops NaN.
    return select(e, v, f32_is_nan(v));
}

// e^v - 1.
fn f32_expm1(v: f32) -> f32 {
    let q = fma(fma(fma(fma(fma(fma(2.4790817e-05, v, 0.00019973585), v, 0.0013889305), v, 0.008333142), v, 0.04166666), v, 0.16666667), v, 0.5);
    return select(uexp(v) - 1.0, fma(v * v, q, v), abs(v) < 0.5);
}

// v = 2^k * (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), for finite v > 0: (k, f).
fn f32_log_parts(v: f32) -> vec2<f32> {
    // A subnormal is its bits times 2^-149.
    let tiny = bitcast<u32>(v) < 0x00800000u;
    let bits = bitcast<u32>(select(v, f32(bitcast<u32>(v)), tiny)) - 0x3f3504f3u;
    let k = f32(bitcast<i32>(bits) >> 23u);
    return vec2<f32>(select(k, k - 149.0, tiny), bitcast<f32>((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0);
}

// ln(1 + f) - f for the f of f32_log_parts.
fn f32_log_rest(f: f32) -> f32 {
    let q = fma(fma(fma(fma(fma(fma(fma(fma(0.06746382, f, -0.116957024), f, 0.11899038), f, -0.1240331), f, 0.14217895), f, -0.16668051), f, 0.20002194), f, -0.2500001), f, 0.3333331);
    return f * f * fma(f, q, -0.5);
}

fn ulog(v: f32) -> f32 {
    let key = f32_key(v);
    if key <= 0 { return f32_of_bits(select(0x7fc00000u, 0xff800000u, key == 0)); }
    if bitcast<u32>(v) >= 0x7f800000u { return v; }
    let parts = f32_log_parts(v);
    let low = f32_kept(f32_log_rest(parts.y) - parts.x * 0.00021219444, parts.x);
    return parts.x * 0.693359375 + (parts.y + low);
}

// The product of two words as (low, high).
fn f32_wide(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let mid = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let cross = (a & 0xffffu) * (b >> 16u) + (mid & 0xffffu);
    return vec2<u32>((cross << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (mid >> 16u) + (cross >> 16u));
}

struct F32Turn { r: f32, quarter: u32 }

// v = r + quarter * pi / 2 with |r| <= pi / 4, exact for any finite v: the digits of 2 / pi outside the table only add whole turns
// (Payne and Hanek).
fn f32_far_turn(v: f32) -> F32Turn {
    var table = array<u32, 7>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);
    let bits = bitcast<u32>(v);
    let exponent = ((bits >> 23u) & 0xffu) - 128u;
    let mantissa = (bits << 8u) | 0x80000000u;
    let i = min(exponent >> 5u, 3u);
    let shift = exponent & 31u;
    var w = vec3<u32>(table[i], table[i + 1u], table[i + 2u]);
    if shift > 0u {
        w = (w << vec3<u32>(shift)) | (vec3<u32>(w.yz, table[i + 3u]) >> vec3<u32>(32u - shift));
    }
    // Quarter turns with 62 bits behind the point.
    let middle = f32_wide(mantissa, w.y);
    let low = middle.x + f32_wide(mantissa, w.z).y;
    var turn = vec2<u32>(low, middle.y + u32(low < middle.x) + mantissa * w.x);
    var quarter = turn.y >> 30u;
    turn.y = turn.y & 0x3fffffffu;
    let back = (turn.y >> 29u) != 0u;
    if back {
        quarter += 1u;
        turn = vec2<u32>(~turn.x + 1u, (0x3fffffffu - turn.y) + u32(turn.x == 0u));
    }
    let zeros = select(countLeadingZeros(turn.y), 31u, turn.y == 0u);
    let top = (turn.y << zeros) | ((turn.x >> 1u) >> (31u - zeros));
    let r = f32(top) * bitcast<f32>((97u - zeros) << 23u) * 1.5707964;
    let negative = (bits >> 31u) != 0u;
    return F32Turn(select(r, -r, back != negative), select(quarter, 0u - quarter, negative));
}

fn f32_turn(v: f32) -> F32Turn {
    let magnitude = bitcast<u32>(v) & 0x7fffffffu;
    if magnitude >= 0x7f800000u { return F32Turn(f32_nan(), 0u); }
    if abs(v) > 200.0 { return f32_far_turn(v); }
    let n = round(v * 0.63661975);
    // pi / 2 in three parts, the first two short enough that their products with n are exact.
    let high = f32_kept(v - n * 1.5707855224609375, n);
    let r = f32_kept(high - n * 1.0804273188114166e-05, n) - n * 6.0771006e-11;
    return F32Turn(r, bitcast<u32>(i32(n)));
}

fn f32_sin_quarter(turn: F32Turn, quarter: u32) -> f32 {
    let z = turn.r * turn.r;
    let s = fma(turn.r * z, fma(fma(fma(2.7173664e-06, z, -0.00019839233), z, 0.008333329), z, -0.16666667), turn.r);
    let c = fma(z * z, fma(fma(fma(-2.7198624e-07, z, 2.4799372e-05), z, -0.0013888883), z, 0.041666668), fma(-0.5, z, 1.0));
    let y = select(s, c, (quarter & 1u) != 0u);
    return select(y, -y, (quarter & 2u) != 0u);
}

fn usin(v: f32) -> f32 {
    let turn = f32_turn(v);
    return f32_sin_quarter(turn, turn.quarter);
}

fn ucos(v: f32) -> f32 {
    let turn = f32_turn(v);
    return f32_sin_quarter(turn, turn.quarter + 1u);
}

fn utanh(v: f32) -> f32 {
    let a = abs(v);
    let z = v * v;
    let near = fma(v * z, fma(fma(fma(fma(fma(0.0021429549, z, -0.00817739), z, 0.021700699), z, -0.053946763), z, 0.13333206), z, -0.3333333), v);
    let far = 1.0 - 2.0 / (uexp(2.0 * select(a, 10.0, a > 10.0)) + 1.0);
    return select(f32_signed(select(far, a, f32_is_nan(v)), v), near, a < 0.625);
}

fn uerf(v: f32) -> f32 {
    let a = abs(v);
    let z = v * v;
    let near = fma(v, fma(fma(fma(fma(fma(fma(8.185087e-05, z, -0.0008097702), z, 0.005196952), z, -0.026857706), z, 0.11283664), z, -0.37612632), z, 0.12837917), v);
    // erfc(a) = exp(-q(a)).
    let c = select(a, 4.05, a > 4.05);
    let q = fma(fma(fma(fma(fma(fma(fma(2.0909674e-05, c, -0.0004323043), c, 0.0041605327), c, -0.025091512), c, 0.10823664), c, 0.6333866), c, 1.1294951), c, -0.00017055367);
    let far = 1.0 - uexp(-q);
    return select(f32_signed(select(far, a, f32_is_nan(v)), v), near, a < 0.95);
}

fn usigmoid(v: f32) -> f32 {
    // The exponential of a negative number cannot overflow.
    let e = uexp(-abs(v));
    let s = 1.0 / (1.0 + e);
    return select(e * s, s, v >= 0.0);
}

fn usilu(v: f32) -> f32 { return v * usigmoid(v); }
fn ugelu(v: f32) -> f32 {
    return 0.5 * v * (1.0 + utanh(0.7978845608 * v * (1.0 + 0.044715 * v * v)));
}
fn ugelu_erf(v: f32) -> f32 { return 0.5 * v * (1.0 + uerf(v * 0.70710678)); }

fn uneg(v: f32) -> f32 { return bitcast<f32>(bitcast<u32>(v) ^ 0x80000000u); }
fn urecip(v: f32) -> f32 { return 1.0 / v; }
fn usqr(v: f32) -> f32 { return v * v; }
fn usqrt(v: f32) -> f32 {
    // A subnormal is its bits times 2^-149; doubled, the power has a root.
    let bits = bitcast<u32>(v);
    if f32_key(v) < 0 { return f32_nan(); }
    if bits - 1u < 0x007fffffu { return sqrt(f32(2u * bits)) * 2.6469779601696886e-23; }
    return sqrt(v);
}
fn uabs(v: f32) -> f32 { return bitcast<f32>(bitcast<u32>(v) & 0x7fffffffu); }
// The sign decides for subnormals, since an adapter may flush them to zero.
fn f32_whole(v: f32, near: f32, above: u32, below: u32) -> f32 {
    let bits = bitcast<u32>(v);
    let tiny = (bits & 0x7fffffffu) - 1u < 0x007fffffu;
    return select(near, bitcast<f32>(select(above, below, bits >= 0x80000000u)), tiny);
}
fn uceil(v: f32) -> f32 { return f32_whole(v, ceil(v), 0x3f800000u, 0x80000000u); }
fn ufloor(v: f32) -> f32 { return f32_whole(v, floor(v), 0u, 0xbf800000u); }
// Half away from zero, where WGSL's `round` takes the even neighbour.
fn uround(v: f32) -> f32 {
    let t = trunc(v);
    return select(t, t + f32_signed(1.0, v), abs(v - t) >= 0.5);
}
fn urelu(v: f32) -> f32 { return select(0.0, v, f32_less(0.0, v)); }
fn usign(v: f32) -> f32 { return select(select(0.0, 1.0, f32_less(0.0, v)), -1.0, f32_less(v, 0.0)); }

fn affine(v: f32, a: f32, b: f32) -> f32 { return v * a + b; }
fn elu(v: f32, a: f32) -> f32 { return select(a * f32_expm1(v), v, v > 0.0); }

fn powf(v: f32, a: f32) -> f32 {
    if a == 0.0 || v == 1.0 { return 1.0; }
    let whole = trunc(a) == a;
    if whole && abs(a) <= 16.0 {
        var power = 1.0;
        var square = v;
        for (var n = u32(abs(a)); n > 0u; n = n >> 1u) {
            if (n & 1u) != 0u { power *= square; }
            square *= square;
        }
        return select(power, 1.0 / power, a < 0.0);
    }
    let key = f32_key(v);
    if a == 0.5 && key >= 0 { return usqrt(v); }
    let base = uabs(v);
    if f32_is_nan(v) || f32_is_nan(a) || (key < 0 && !whole && bitcast<u32>(base) < 0x7f800000u) { return f32_nan(); }
    // Above 2^24 every float is even.
    let odd = whole && (bitcast<u32>(v) >> 31u) != 0u && abs(a) < 16777216.0 && (u32(abs(a)) & 1u) != 0u;
    var power: f32;
    if key == 0 || bitcast<u32>(base) == 0x7f800000u {
        power = select(0.0, f32_inf(), (key == 0) == (a < 0.0));
    } else {
        // log2(base) = k + l; the exact part of a * k stays separate, so that no bits of the fraction are lost.
        let parts = f32_log_parts(base);
        let l = (parts.y + f32_log_rest(parts.y)) * 1.442695;
        let high = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u);
        let n = clamp(round(a * parts.x + a * l), -160.0, 160.0);
        let f = f32_kept(high * parts.x - n, n) + ((a - high) * parts.x + a * l);
        power = f32_exp_scaled(clamp(f, -1.0, 1.0) * 0.6931472, n);
    }
    return select(power, -power, odd);
}

fn badd(a: f32, b: f32) -> f32 { return a + b; }
fn bsub(a: f32, b: f32) -> f32 { return a - b; }
fn bmul(a: f32, b: f32) -> f32 { return a * b; }
// WGSL promises a good quotient for divisors up to 2^126; NVIDIA's driver flushes the reciprocal of a greater one.
fn bdiv(a: f32, b: f32) -> f32 {
    let s = select(1.0, 0.25, (bitcast<u32>(b) & 0x7fffffffu) > 0x7e800000u);
    return (a * s) / (b * s);
}
// A NaN in b is ignored, a NaN in a is kept.
fn bminimum(a: f32, b: f32) -> f32 { return select(a, b, f32_less(b, a)); }
fn bmaximum(a: f32, b: f32) -> f32 { return select(a, b, f32_less(a, b)); }

fn eq(a: f32, b: f32) -> u32 { return u32(f32_equal(a, b)); }
fn ne(a: f32, b: f32) -> u32 { return u32(!f32_equal(a, b)); }
fn le(a: f32, b: f32) -> u32 { return u32(f32_less(a, b) || f32_equal(a, b)); }
fn ge(a: f32, b: f32) -> u32 { return u32(f32_less(b, a) || f32_equal(a, b)); }
fn lt(a: f32, b: f32) -> u32 { return u32(f32_less(a, b)); }
fn gt(a: f32, b: f32) -> u32 { return u32(f32_less(b, a)); }

// Steps of reductions. `_takes`: whether b replaces a. Anything replaces a NaN: a NaN counts only as the first element of all, which
// `reduce_poison` checks.
fn reduce_sum(a: f32, b: f32) -> f32 { return a + b; }
fn reduce_min_takes(a: f32, b: f32) -> bool { return f32_less(b, a) || (f32_is_nan(a) && !f32_is_nan(b)); }
fn reduce_max_takes(a: f32, b: f32) -> bool { return f32_less(a, b) || (f32_is_nan(a) && !f32_is_nan(b)); }
fn reduce_poison(v: f32) -> bool { return f32_is_nan(v); }
// v as an integer in the order of the numbers, -0 before 0, and back. NaN comes before all or behind all, so that it never wins.
fn reduce_order(v: f32) -> i32 {
    let bits = bitcast<i32>(v);
    return bits ^ ((bits >> 31u) & 0x7fffffff);
}
fn reduce_max_key(v: f32) -> i32 {
    let key = reduce_order(v);
    return select(key, -0x7fffffff - 1, key > 0x7f800000);
}
fn reduce_min_key(v: f32) -> i32 {
    let key = reduce_order(v);
    return select(key, 0x7fffffff, key < -0x7f800001);
}
// The place of the winner, in which both zeros are the same.
fn reduce_argmax_key(v: f32) -> i32 {
    let key = f32_key(v);
    return select(key, -0x7fffffff - 1, key > 0x7f800000);
}
fn reduce_argmin_key(v: f32) -> i32 {
    let key = -f32_key(v);
    return select(key, -0x7fffffff - 1, key > 0x7f800000);
}
fn reduce_of_key(key: i32) -> f32 { return bitcast<f32>(key ^ ((key >> 31u) & 0x7fffffff)); }
// The order of sorting as an unsigned key: both zeros are equal and NaN is the greatest.
fn sort_key(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    if f32_is_nan(v) { return 0xffffffffu; }
    if (bits & 0x7fffffffu) == 0u { return 0x80000000u; }
    return select(bits | 0x80000000u, ~bits, (bits >> 31u) != 0u);
}
