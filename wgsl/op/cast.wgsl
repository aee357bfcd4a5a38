// Conversions between compute types, as Rust's `as`: floats to integers saturate and NaN gives 0,
// integers to floats round to nearest, ties to even.

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

// By hand, since WGSL leaves the rounding of a conversion open.
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
