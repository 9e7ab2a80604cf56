//! Numbers, held by their text.
//!
//! A number that only passes through keeps every digit: `1.10` stays `1.10`, `1E400` stays `1E400`.
//! Comparing and computing are exact decimal work up to [`MAX_DIGITS`] digits (by `rust_decimal`);
//! what needs more is an error, never a rounded value. Not here: the grammar of a number in JSON
//! (`json`), which a [`Number`] made there keeps to.

use std::cmp::Ordering;

use rust_decimal::{Decimal, RoundingStrategy};

/// Digits that a number may have when it is compared or computed with, and that a result may have.
pub const MAX_DIGITS: usize = 28;

/// A JSON number.
///
/// Two are equal for Rust when their texts are; by value they are compared with
/// [`Number::compare`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(Box<str>);

/// Why an exact result cannot be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// An operand has more digits than can be worked with.
    #[error("a number with more than {MAX_DIGITS} digits cannot be compared or computed with")]
    TooLong,
    /// The result has more digits than can be held.
    #[error("the result needs more than {MAX_DIGITS} digits")]
    Inexact,
    /// A quotient has no end.
    #[error(
        "the quotient needs more than {MAX_DIGITS} digits; round(a / b, n) divides to n places"
    )]
    Endless,
    /// Division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// `round` was asked for so many places.
    #[error("round takes 0 to {MAX_DIGITS} places, as a whole number")]
    Places,
}

/// An arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`, with the sign of the left operand
    Remainder,
}

impl Number {
    /// The number with this text, which keeps to the grammar of JSON (the scanner has checked it).
    pub(crate) fn from_json_text(text: &str) -> Number {
        Number(text.into())
    }

    /// A whole number.
    pub fn from_u64(value: u64) -> Number {
        Number(value.to_string().into())
    }

    /// Reads a number from a text such as an XML element holds: spaces around it, a `+` and leading
    /// zeros are allowed.
    pub fn from_loose_text(text: &str) -> Option<Number> {
        let text = text.trim();
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let zeros = digits.bytes().take_while(|byte| *byte == b'0').count();
        let starts_whole = digits.as_bytes().get(zeros).is_some_and(u8::is_ascii_digit);
        let digits =
            if starts_whole { &digits[zeros..] } else { &digits[zeros.saturating_sub(1)..] };
        let text = if negative { format!("-{digits}") } else { digits.to_owned() };
        is_json_number(&text).then(|| Number(text.into()))
    }

    /// The text, exactly as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares by value.
    ///
    /// # Errors
    /// [`NumberError::TooLong`] when either has more than [`MAX_DIGITS`] digits.
    pub fn compare(&self, other: &Number) -> Result<Ordering, NumberError> {
        Ok(self.decimal()?.cmp(&other.decimal()?))
    }

    /// Computes exactly.
    ///
    /// # Errors
    /// When an operand or the exact result has more than [`MAX_DIGITS`] digits, or on division by
    /// zero.
    pub fn compute(&self, operation: Arithmetic, other: &Number) -> Result<Number, NumberError> {
        let (a, b) = (self.decimal()?, other.decimal()?);
        let result = match operation {
            Arithmetic::Add => sum(a, b)?,
            Arithmetic::Subtract => sum(a, -b)?,
            Arithmetic::Multiply => product(a, b)?,
            Arithmetic::Divide => quotient(a, b)?,
            Arithmetic::Remainder => remainder(a, b)?,
        };
        Number::from_decimal(result)
    }

    /// The number with the other sign.
    pub fn negate(&self) -> Number {
        match self.0.strip_prefix('-') {
            Some(digits) => Number(digits.into()),
            None => Number(format!("-{}", self.0).into()),
        }
    }

    /// The number rounded to so many places, halves away from zero.
    ///
    /// # Errors
    /// When the number has too many digits, or `places` is not a whole number from 0 to
    /// [`MAX_DIGITS`].
    pub fn round(&self, places: &Number) -> Result<Number, NumberError> {
        let places = places.places()?;
        Number::from_decimal(rounded(self.decimal()?, places))
    }

    /// `self / divisor` rounded to so many places, halves away from zero: exact also where the
    /// quotient has no end.
    ///
    /// # Errors
    /// As [`Number::round`], on division by zero, and when the result has too many digits.
    pub fn divide_rounded(&self, divisor: &Number, places: &Number) -> Result<Number, NumberError> {
        let places = places.places()?;
        let (a, b) = (self.decimal()?, divisor.decimal()?);
        if b.is_zero() {
            return Err(NumberError::DivisionByZero);
        }
        // a / b = (ma × 10^sb) / (mb × 10^sa); scaled by 10^places that is one division of whole
        // numbers.
        let shift = i64::from(b.scale()) + i64::from(places) - i64::from(a.scale());
        let (mut above, mut below) = (a.mantissa(), b.mantissa());
        let power = power_of_ten(shift.unsigned_abs()).ok_or(NumberError::Inexact)?;
        if shift >= 0 {
            above = above.checked_mul(power).ok_or(NumberError::Inexact)?;
        } else {
            below = below.checked_mul(power).ok_or(NumberError::Inexact)?;
        }
        let (whole, rest) = (above / below, above % below);
        let half_or_more = rest.unsigned_abs() >= below.unsigned_abs() - rest.unsigned_abs();
        let away = if (above < 0) == (below < 0) { 1 } else { -1 };
        let whole = if half_or_more { whole + away } else { whole };
        let result =
            Decimal::try_from_i128_with_scale(whole, places).map_err(|_| NumberError::Inexact)?;
        Number::from_decimal(result)
    }

    fn places(&self) -> Result<u32, NumberError> {
        let places = self.decimal().map_err(|_| NumberError::Places)?.normalize();
        let whole = u32::try_from(places.mantissa()).map_err(|_| NumberError::Places)?;
        if places.scale() != 0 || whole as usize > MAX_DIGITS {
            return Err(NumberError::Places);
        }
        Ok(whole)
    }

    /// The exact decimal, when the digits fit. Zeros that carry no value do not count.
    fn decimal(&self) -> Result<Decimal, NumberError> {
        let (negative, rest) = match self.0.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, &*self.0),
        };
        let (coefficient, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = coefficient.split_once('.').unwrap_or((coefficient, ""));
        let digits: String = [whole, fraction].concat();
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(Decimal::ZERO);
        }
        let exponent: i64 = exponent.parse().map_err(|_| NumberError::TooLong)?;
        let fraction_len = i64::try_from(fraction.len()).map_err(|_| NumberError::TooLong)?;
        let scale = fraction_len.checked_sub(exponent).ok_or(NumberError::TooLong)?;
        scaled(digits, scale, negative).ok_or(NumberError::TooLong)
    }

    fn from_decimal(value: Decimal) -> Result<Number, NumberError> {
        if value.mantissa().unsigned_abs() >= 10u128.pow(MAX_DIGITS as u32) {
            return Err(NumberError::Inexact);
        }
        Ok(Number(value.to_string().into()))
    }
}

/// `digits` × 10^-`scale`, or `None` when that needs more than [`MAX_DIGITS`] digits on either side
/// of the point.
fn scaled(digits: &str, scale: i64, negative: bool) -> Option<Decimal> {
    let max = MAX_DIGITS as i64;
    let mut digits = digits;
    let mut scale = scale;
    if digits.len() > MAX_DIGITS || scale > max {
        let kept = digits.trim_end_matches('0');
        scale = scale.checked_sub(i64::try_from(digits.len() - kept.len()).ok()?)?;
        digits = kept;
    }
    if digits.len() > MAX_DIGITS || scale > max {
        return None;
    }
    let mut mantissa: i128 = digits.parse().ok()?;
    if scale < 0 {
        let len = i64::try_from(digits.len()).ok()?;
        if len.checked_sub(scale)? > max {
            return None;
        }
        mantissa = mantissa.checked_mul(power_of_ten(scale.unsigned_abs())?)?;
        scale = 0;
    }
    let signed = if negative { -mantissa } else { mantissa };
    Decimal::try_from_i128_with_scale(signed, u32::try_from(scale).ok()?).ok()
}

fn power_of_ten(exponent: u64) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

/// `Decimal` rounds a sum that does not fit to a smaller scale; the scale tells.
fn sum(a: Decimal, b: Decimal) -> Result<Decimal, NumberError> {
    let result = a.checked_add(b).ok_or(NumberError::Inexact)?;
    if result.scale() == a.scale().max(b.scale()) {
        return Ok(result);
    }
    let (a, b) = (a.normalize(), b.normalize());
    let result = a.checked_add(b).ok_or(NumberError::Inexact)?;
    if result.scale() < a.scale().max(b.scale()) {
        return Err(NumberError::Inexact);
    }
    Ok(result)
}

/// As for a sum: an exact product has the sum of the scales.
fn product(a: Decimal, b: Decimal) -> Result<Decimal, NumberError> {
    if a.is_zero() || b.is_zero() {
        return Ok(Decimal::ZERO);
    }
    let (a, b) = (a.normalize(), b.normalize());
    let result = a.checked_mul(b).ok_or(NumberError::Inexact)?;
    if result.scale() != a.scale() + b.scale() {
        return Err(NumberError::Inexact);
    }
    Ok(result)
}

/// A quotient is exact when it gives the dividend back.
fn quotient(a: Decimal, b: Decimal) -> Result<Decimal, NumberError> {
    if b.is_zero() {
        return Err(NumberError::DivisionByZero);
    }
    let result = a.checked_div(b).ok_or(NumberError::Inexact)?.normalize();
    match product(result, b) {
        Ok(back) if back == a => Ok(result),
        _ => Err(NumberError::Endless),
    }
}

/// On whole numbers of one scale, so that nothing is rounded on the way.
fn remainder(a: Decimal, b: Decimal) -> Result<Decimal, NumberError> {
    if b.is_zero() {
        return Err(NumberError::DivisionByZero);
    }
    let (a, b) = (a.normalize(), b.normalize());
    let scale = a.scale().max(b.scale());
    let aligned = |value: Decimal| {
        let power = power_of_ten(u64::from(scale - value.scale()))?;
        value.mantissa().checked_mul(power)
    };
    let (above, below) = (aligned(a), aligned(b));
    let (above, below) = (above.ok_or(NumberError::Inexact)?, below.ok_or(NumberError::Inexact)?);
    let result = Decimal::try_from_i128_with_scale(above % below, scale);
    Ok(result.map_err(|_| NumberError::Inexact)?.normalize())
}

fn rounded(value: Decimal, places: u32) -> Decimal {
    value.round_dp_with_strategy(places, RoundingStrategy::MidpointAwayFromZero)
}

/// Whether the text keeps to the grammar of a JSON number.
fn is_json_number(text: &str) -> bool {
    crate::document::scanner::is_number(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> Number {
        assert!(is_json_number(text), "{text}");
        Number::from_json_text(text)
    }

    fn compute(a: &str, operation: Arithmetic, b: &str) -> Result<String, NumberError> {
        number(a).compute(operation, &number(b)).map(|result| result.as_str().to_owned())
    }

    #[test]
    fn comparison_is_by_value_and_exact() {
        let compare = |a: &str, b: &str| number(a).compare(&number(b));
        assert_eq!(compare("1.10", "1.1"), Ok(Ordering::Equal));
        assert_eq!(compare("-0", "0e999999999999999999999"), Ok(Ordering::Equal));
        assert_eq!(compare("1e3", "1000"), Ok(Ordering::Equal));
        assert_eq!(compare("9007199254740993", "9007199254740992"), Ok(Ordering::Greater));
        assert_eq!(compare("12345678901234567890", "12345678901234567891"), Ok(Ordering::Less));
        assert_eq!(compare("1.000000000000000000000000000000000", "1"), Ok(Ordering::Equal));
        assert_eq!(compare("1E400", "1"), Err(NumberError::TooLong));
        assert_eq!(compare("1e-400", "1"), Err(NumberError::TooLong));
        assert_eq!(compare("12345678901234567890123456789", "1"), Err(NumberError::TooLong));
        assert_eq!(compare("1e99999999999999999999", "1"), Err(NumberError::TooLong));
        assert_eq!(compare("1.5e-9223372036854775808", "1"), Err(NumberError::TooLong));
    }

    #[test]
    fn arithmetic_is_exact_or_an_error() {
        use Arithmetic::*;
        assert_eq!(compute("0.1", Add, "0.2").unwrap(), "0.3");
        assert_eq!(compute("1.10", Add, "1.10").unwrap(), "2.20");
        assert_eq!(compute("1", Subtract, "1.5").unwrap(), "-0.5");
        assert_eq!(compute("1.10", Multiply, "3").unwrap(), "3.3");
        assert_eq!(compute("1", Divide, "4").unwrap(), "0.25");
        assert_eq!(compute("1", Divide, "3"), Err(NumberError::Endless));
        assert_eq!(compute("2", Divide, "3"), Err(NumberError::Endless));
        assert_eq!(compute("1", Divide, "0"), Err(NumberError::DivisionByZero));
        assert_eq!(compute("7.5", Remainder, "2").unwrap(), "1.5");
        assert_eq!(compute("-7", Remainder, "3").unwrap(), "-1");
        assert_eq!(compute("1", Remainder, "0.0"), Err(NumberError::DivisionByZero));
        let long = "1000000000000000000000000000";
        assert_eq!(compute(long, Add, "0.0000000000000000000000000001"), Err(NumberError::Inexact));
        assert_eq!(compute(long, Multiply, long), Err(NumberError::Inexact));
        assert_eq!(
            compute("0.00000000000001", Multiply, "0.000000000000001"),
            Err(NumberError::Inexact)
        );
        assert_eq!(compute("9999999999999999999999999999", Add, "1"), Err(NumberError::Inexact));
    }

    #[test]
    fn rounding_goes_away_from_zero_at_the_half() {
        let round = |a: &str, n: &str| number(a).round(&number(n)).map(|r| r.as_str().to_owned());
        assert_eq!(round("2.345", "2").unwrap(), "2.35");
        assert_eq!(round("-2.345", "2").unwrap(), "-2.35");
        assert_eq!(round("2.5", "0").unwrap(), "3");
        assert_eq!(round("1.5", "29"), Err(NumberError::Places));
        assert_eq!(round("1.5", "0.5"), Err(NumberError::Places));
        assert_eq!(round("1.5", "-1"), Err(NumberError::Places));
        let divide = |a: &str, b: &str, n: &str| {
            number(a).divide_rounded(&number(b), &number(n)).map(|r| r.as_str().to_owned())
        };
        assert_eq!(divide("10", "3", "2").unwrap(), "3.33");
        assert_eq!(divide("20", "3", "2").unwrap(), "6.67");
        assert_eq!(divide("-20", "3", "2").unwrap(), "-6.67");
        assert_eq!(divide("1", "8", "2").unwrap(), "0.13");
        assert_eq!(divide("0.001", "4", "0").unwrap(), "0");
        assert_eq!(divide("1", "0", "2"), Err(NumberError::DivisionByZero));
    }

    #[test]
    fn a_number_is_read_from_loose_text() {
        let loose = |text: &str| Number::from_loose_text(text).map(|n| n.as_str().to_owned());
        assert_eq!(loose(" 007 ").as_deref(), Some("7"));
        assert_eq!(loose("+1.50").as_deref(), Some("1.50"));
        assert_eq!(loose("-00.5").as_deref(), Some("-0.5"));
        assert_eq!(loose("000").as_deref(), Some("0"));
        assert_eq!(loose("1e5").as_deref(), Some("1e5"));
        for bad in ["", "-", "+", "--1", "0x3", "1,5", "NaN", "Infinity", "1_000", ".5", "5.", "١"]
        {
            assert_eq!(loose(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn work_agrees_with_whole_numbers(
            a in -1_000_000_000i64..1_000_000_000,
            b in -1_000_000i64..1_000_000,
        ) {
            let (x, y) = (number(&a.to_string()), number(&b.to_string()));
            let whole = |operation| {
                x.compute(operation, &y).unwrap().as_str().parse::<i64>().unwrap()
            };
            prop_assert_eq!(whole(Arithmetic::Add), a + b);
            prop_assert_eq!(whole(Arithmetic::Subtract), a - b);
            prop_assert_eq!(whole(Arithmetic::Multiply), a * b);
            prop_assert_eq!(x.compare(&y).unwrap(), a.cmp(&b));
            if b != 0 {
                prop_assert_eq!(whole(Arithmetic::Remainder), a % b);
            }
        }

        #[test]
        fn no_text_of_a_number_makes_it_panic(
            text in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,25})?",
            other in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?",
        ) {
            let (a, b) = (number(&text), number(&other));
            let _ = a.compare(&b);
            for operation in [
                Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply, Arithmetic::Divide,
                Arithmetic::Remainder,
            ] {
                let _ = a.compute(operation, &b);
            }
            let _ = a.divide_rounded(&b, &number("5"));
            let _ = a.round(&number("3"));
            prop_assert_eq!(a.negate().negate(), a);
        }
    }
}
