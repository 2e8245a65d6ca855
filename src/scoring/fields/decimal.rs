//! Decimal numbers as written, without binary rounding and size limits.

/// A number: its digits without surrounding zeros, and the power of ten to multiply by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    is_negative: bool,
    digits: String,
    power: i64,
}

/// Whether leading zeros are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeadingZeros {
    /// `007` is not a number but an identifier.
    Refused,
    /// `007` is 7.
    Allowed,
}

impl Decimal {
    /// A number as JSON writes it.
    pub(super) fn of_json(text: &str) -> Option<Self> {
        let (mantissa, power) = match text.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, power.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (is_negative, mantissa) = signed(mantissa);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Self::of_parts(is_negative, whole, fraction, power)
    }

    /// A number as written by people: `1234.5`, `1,234.50`, `-7`. A comma is only a thousands separator.
    pub(super) fn of_text(text: &str, zeros: LeadingZeros) -> Option<Self> {
        let (is_negative, text) = signed(text.trim());
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return None,
            None => (text, ""),
        };
        let whole = without_separators(whole)?;
        if zeros == LeadingZeros::Refused && whole.len() > 1 && whole.starts_with('0') {
            return None;
        }
        Self::of_parts(is_negative, &whole, fraction, 0)
    }

    fn of_parts(is_negative: bool, whole: &str, fraction: &str, power: i64) -> Option<Self> {
        const LONGEST: usize = 10_000;
        let digits = format!("{whole}{fraction}");
        let legal =
            !digits.is_empty() && digits.len() <= LONGEST && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !legal {
            return None;
        }
        let power = power.checked_sub(i64::try_from(fraction.len()).ok()?)?;
        let short = digits.trim_end_matches('0');
        let power = power.checked_add(i64::try_from(digits.len() - short.len()).ok()?)?;
        let short = short.trim_start_matches('0');
        if short.is_empty() {
            return Some(Self { is_negative: false, digits: String::new(), power: 0 });
        }
        Some(Self { is_negative, digits: short.to_owned(), power })
    }

    /// The nearest binary fraction.
    pub(super) fn as_f64(&self) -> f64 {
        self.text().parse().unwrap_or(f64::NAN)
    }

    /// The canonical text of the number.
    pub(super) fn text(&self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        let digits = if self.digits.is_empty() { "0" } else { &self.digits };
        format!("{sign}{digits}e{}", self.power)
    }
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Digits, or digits in groups of three; `None` otherwise.
fn without_separators(text: &str) -> Option<String> {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = text.split(',');
    let first = groups.next()?;
    let mut digits = first.to_owned();
    let mut is_grouped = false;
    for group in groups {
        if group.len() != 3 {
            return None;
        }
        is_grouped = true;
        digits.push_str(group);
    }
    let legal = is_digits(&digits) && !first.is_empty() && !(is_grouped && (first.len() > 3 || first == "0"));
    legal.then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<String> {
        Decimal::of_text(text, LeadingZeros::Refused).map(|decimal| decimal.text())
    }

    #[test]
    fn a_number_has_one_canonical_form() {
        for (json, written) in [
            ("1234.5", "1,234.50"),
            ("0.0", "0"),
            ("-0.0", "0"),
            ("-7", "\u{2212}7"),
            ("1e21", "1,000,000,000,000,000,000,000"),
            ("9007199254740993", "9007199254740993.0"),
            ("1.5e-7", "0.00000015"),
            ("100", "+100.000"),
        ] {
            assert_eq!(Decimal::of_json(json).unwrap().text(), text(written).unwrap(), "{json}");
        }
        assert_ne!(Decimal::of_json("9007199254740993"), Decimal::of_json("9007199254740992"));
        assert_eq!(Decimal::of_text("007", LeadingZeros::Allowed), Decimal::of_json("7"));
    }

    #[test]
    fn ambiguous_text_is_not_a_number() {
        for odd in [
            "", "-", "007", "1.", ".5", "1,23", "1234,567", "0,123", ",123", "1,,234", "1.234,50", "1 234",
            "1e3", "1_000", "0x10", "NaN", "inf", "٣", "--1", "1.2.3", "12a",
        ] {
            assert_eq!(text(odd), None, "{odd}");
        }
    }
}
