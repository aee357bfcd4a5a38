//! f8e4m3 on the host: a sign, four bits of exponent with a bias of 7, three of mantissa; no infinities.

/// The greatest finite value.
pub(crate) const MAX: f64 = 448.0;
const NAN: u8 = 0x7f;

/// Ties to even; what is greater than 448 becomes 448, infinities too.
pub(crate) fn from_f64(v: f64) -> u8 {
    let sign = if v.is_sign_negative() { 0x80 } else { 0 };
    if v.is_nan() {
        return sign | NAN;
    }
    let a = v.abs().min(MAX);
    // The last place is 2^-9 for subnormal values and 2^(exponent - 3) for others.
    let exponent = ((a.to_bits() >> 52) as i32 - 1023).max(-6);
    let units = (a * f64::from(3 - exponent).exp2()).round_ties_even() as u8;
    // A carry out of the mantissa, and its leading one, raise the exponent as they should.
    sign | ((((exponent + 6) as u8) << 3) + units)
}

pub(crate) fn to_f32(bits: u8) -> f32 {
    let (exponent, mantissa) = (bits >> 3 & 0xf, f32::from(bits & 7));
    let magnitude = match (exponent, bits & 0x7f) {
        (_, NAN) => f32::NAN,
        (0, _) => mantissa / 512.0,
        _ => (8.0 + mantissa) * f32::from(exponent).exp2() / 1024.0,
    };
    if bits & 0x80 != 0 {
        -magnitude
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back() {
        for bits in 0..=255u8 {
            let v = to_f32(bits);
            assert!(v.is_nan() || from_f64(v.into()) == bits, "{bits:#x} is {v}");
        }
    }

    #[test]
    fn rounds_and_saturates() {
        assert_eq!(from_f64(464.1), from_f64(448.0));
        assert_eq!(from_f64(f64::NEG_INFINITY), 0xfe);
        assert_eq!(to_f32(from_f64(17.0)), 16.0);
        assert_eq!(to_f32(from_f64(19.0)), 20.0);
        assert_eq!(from_f64(1.0 / 1024.0), 0);
        assert_eq!(from_f64(1.1 / 1024.0), 1);
    }
}
