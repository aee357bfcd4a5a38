// <from>_to_<to>(v): conversions between compute types as Rust's `as` does. Floats saturate to integers, NaN gives 0; integers round to
// floats, ties to even.

fn f32_to_u8(v: f32) -> u32 {
    if !(v > 0.0) { return 0u; }
    return u32(min(v, 255.0));
}

fn f32_to_u32(v: f32) -> u32 {
    if !(v > 0.0) { return 0u; }
    if v >= 4294967296.0 { return 0xffffffffu; }
    return u32(v);
}

fn f32_to_i64(v: f32) -> vec2<u32> {
    let bits = bitcast<u32>(v);
    let magnitude = bits & 0x7fffffffu;
    let negative = (bits >> 31u) != 0u;
    if magnitude > 0x7f800000u || magnitude < 0x3f800000u { return vec2<u32>(0u); }
    // From 2^63 on.
    if magnitude >= 0x5f000000u {
        return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), negative);
    }
    // The mantissa has its last place at 2^(exponent - 23).
    let exponent = (magnitude >> 23u) - 127u;
    let mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    var out = vec2<u32>(0u);
    if exponent < 24u {
        out.x = mantissa >> (23u - exponent);
    } else if exponent < 55u {
        let shift = exponent - 23u;
        out = vec2<u32>(mantissa << shift, mantissa >> (32u - shift));
    } else {
        out.y = mantissa << (exponent - 55u);
    }
    if negative { out = vec2<u32>(~out.x + 1u, ~out.y + u32(out.x == 0u)); }
    return out;
}

fn u32_to_f32(v: u32) -> f32 { return i64_to_f32(vec2<u32>(v, 0u)); }

fn u32_to_i64(v: u32) -> vec2<u32> { return vec2<u32>(v, 0u); }

fn i64_to_u32(v: vec2<u32>) -> u32 { return v.x; }

// In integers, since WGSL does not define the rounding of a conversion.
fn i64_to_f32(v: vec2<u32>) -> f32 {
    let negative = (v.y >> 31u) != 0u;
    let a = select(v, vec2<u32>(~v.x + 1u, ~v.y + u32(v.x == 0u)), negative);
    if (a.x | a.y) == 0u { return 0.0; }
    // Shift the leading one to the top.
    let zeros = select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u);
    var high = select(a.y, a.x, zeros >= 32u);
    var low = select(a.x, 0u, zeros >= 32u);
    let shift = zeros % 32u;
    if shift > 0u {
        high = (high << shift) | (low >> (32u - shift));
        low = low << shift;
    }
    let mantissa = high >> 8u;
    let rest = high & 0xffu;
    let up = rest > 0x80u || (rest == 0x80u && (low != 0u || (mantissa & 1u) != 0u));
    // A carry out of the mantissa raises the exponent as it should.
    let bits = ((189u - zeros) << 23u) + mantissa + u32(up);
    return bitcast<f32>(bits | (v.y & 0x80000000u));
}

fn f32_to_i32(v: f32) -> i32 {
    if bitcast<u32>(abs(v)) > 0x7f800000u { return 0i; }
    if v >= 2147483648.0 { return 0x7fffffffi; }
    if v <= -2147483648.0 { return bitcast<i32>(0x80000000u); }
    return i32(v);
}

fn f32_to_i16(v: f32) -> i32 { return clamp(f32_to_i32(v), -32768i, 32767i); }

fn i32_to_u32(v: i32) -> u32 { return bitcast<u32>(v); }
fn u32_to_i32(v: u32) -> i32 { return bitcast<i32>(v); }
fn i32_to_i64(v: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(v), bitcast<u32>(v >> 31u)); }
fn i64_to_i32(v: vec2<u32>) -> i32 { return bitcast<i32>(v.x); }
fn i32_to_f32(v: i32) -> f32 { return i64_to_f32(i32_to_i64(v)); }

// f64 is a pair of words, too: conversions work on its bits.

fn f32_to_f64(v: f32) -> vec2<u32> {
    let bits = bitcast<u32>(v);
    let sign = bits & 0x80000000u;
    var a = bits & 0x7fffffffu;
    if a == 0u { return vec2<u32>(0u, sign); }
    if a >= 0x7f800000u {
        // The payload of a NaN stays, and it becomes quiet.
        let quiet = select(0u, 0x80000u, a > 0x7f800000u);
        return vec2<u32>(a << 29u, sign | 0x7ff00000u | quiet | ((a & 0x7fffffu) >> 3u));
    }
    var exponent = 896u;
    if a < 0x800000u {
        let zeros = countLeadingZeros(a) - 8u;
        a = a << zeros;
        exponent = 897u - zeros;
        a = a & 0x7fffffu;
    } else {
        exponent += a >> 23u;
        a = a & 0x7fffffu;
    }
    return vec2<u32>(a << 29u, sign | (exponent << 20u) | (a >> 3u));
}

// Rounds off the 29 bits that an f32 lacks, and more for a subnormal result. With `odd`, the last bit records whether any were lost
// instead (rounding to odd), so that a later rounding to fewer bits does not round twice.
fn f64_narrow(v: vec2<u32>, odd: bool) -> f32 {
    let sign = v.y & 0x80000000u;
    let high = v.y & 0x7fffffffu;
    if high >= 0x7ff00000u {
        let nan = ((high & 0xfffffu) | v.x) != 0u;
        return bitcast<f32>(sign | select(0x7f800000u, 0x7fc00000u, nan));
    }
    let exponent = i32(high >> 20u) - 896i;
    if exponent >= 255i { return bitcast<f32>(sign | select(0x7f800000u, 0x7f7fffffu, odd)); }
    if exponent < -23i { return bitcast<f32>(sign | u32(odd && (high | v.x) != 0u)); }
    // 31 bits, and whether there are more.
    let mantissa = (high & 0xfffffu) | 0x100000u;
    let all = (mantissa << 10u) | (v.x >> 22u);
    let sticky = (v.x & 0x3fffffu) != 0u;
    let shift = u32(select(7i, 8i - exponent, exponent < 1i));
    let kept = all >> shift;
    let rest = all << (32u - shift);
    let up = select(
        rest > 0x80000000u || (rest == 0x80000000u && (sticky || (kept & 1u) != 0u)),
        (rest != 0u || sticky) && (kept & 1u) == 0u,
        odd,
    );
    let base = select(0u, u32(exponent - 1i) << 23u, exponent >= 1i);
    return bitcast<f32>(sign | (base + kept + u32(up)));
}

fn f64_to_f32(v: vec2<u32>) -> f32 { return f64_narrow(v, false); }
fn f64_to_f32_odd(v: vec2<u32>) -> f32 { return f64_narrow(v, true); }

fn f64_to_i64(v: vec2<u32>) -> vec2<u32> {
    let negative = (v.y >> 31u) != 0u;
    let high = v.y & 0x7fffffffu;
    if high > 0x7ff00000u || (high == 0x7ff00000u && v.x != 0u) || high < 0x3ff00000u { return vec2<u32>(0u); }
    // From 2^63 on.
    if high >= 0x43e00000u {
        return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), negative);
    }
    // The mantissa has its last place at 2^(exponent - 52).
    let exponent = (high >> 20u) - 1023u;
    let mantissa = (high & 0xfffffu) | 0x100000u;
    var out = vec2<u32>(v.x, mantissa);
    if exponent > 52u {
        let shift = exponent - 52u;
        out = vec2<u32>(v.x << shift, (mantissa << shift) | (v.x >> (32u - shift)));
    } else if exponent < 20u {
        out = vec2<u32>(mantissa >> (20u - exponent), 0u);
    } else if exponent == 20u {
        out = vec2<u32>(mantissa, 0u);
    } else if exponent < 52u {
        let shift = 52u - exponent;
        out = vec2<u32>((v.x >> shift) | (mantissa << (32u - shift)), mantissa >> shift);
    }
    if negative { out = vec2<u32>(~out.x + 1u, ~out.y + u32(out.x == 0u)); }
    return out;
}

fn f64_to_u32(v: vec2<u32>) -> u32 {
    let w = f64_to_i64(v);
    if (w.y >> 31u) != 0u { return 0u; }
    return select(w.x, 0xffffffffu, w.y != 0u);
}

fn f64_to_u8(v: vec2<u32>) -> u32 { return min(f64_to_u32(v), 255u); }

fn f64_to_i32(v: vec2<u32>) -> i32 {
    let w = f64_to_i64(v);
    // Whether the upper word is all sign.
    if bitcast<u32>(bitcast<i32>(w.x) >> 31u) == w.y { return bitcast<i32>(w.x); }
    return bitcast<i32>(select(0x7fffffffu, 0x80000000u, (w.y >> 31u) != 0u));
}

fn f64_to_i16(v: vec2<u32>) -> i32 { return clamp(f64_to_i32(v), -32768i, 32767i); }

fn i64_to_f64(v: vec2<u32>) -> vec2<u32> {
    let negative = (v.y >> 31u) != 0u;
    let a = select(v, vec2<u32>(~v.x + 1u, ~v.y + u32(v.x == 0u)), negative);
    if (a.x | a.y) == 0u { return a; }
    // Shift the leading one to the top.
    let zeros = select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u);
    var high = select(a.y, a.x, zeros >= 32u);
    var low = select(a.x, 0u, zeros >= 32u);
    let shift = zeros % 32u;
    if shift > 0u {
        high = (high << shift) | (low >> (32u - shift));
        low = low << shift;
    }
    let rest = low & 0x7ffu;
    let up = rest > 0x400u || (rest == 0x400u && (low & 0x800u) != 0u);
    let kept = (low >> 11u) | (high << 21u);
    let bits = kept + u32(up);
    // A carry out of the mantissa raises the exponent as it should.
    return vec2<u32>(bits, ((1085u - zeros) << 20u) + (high >> 11u) + u32(bits < kept)) | vec2<u32>(0u, v.y & 0x80000000u);
}

fn u32_to_f64(v: u32) -> vec2<u32> { return i64_to_f64(vec2<u32>(v, 0u)); }
fn i32_to_f64(v: i32) -> vec2<u32> { return i64_to_f64(i32_to_i64(v)); }
