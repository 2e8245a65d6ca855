//! Numbers formatted for people.

/// Placeholder for an unknown number.
pub fn dash() -> String {
    "–".to_owned()
}

/// A duration; in seconds if it is a second or longer.
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
pub fn milliseconds(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        format!("{milliseconds} ms")
    } else {
        format!("{:.1} s", milliseconds as f64 / 1000.0)
    }
}

/// A number with thousands separators.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// An amount in dollars.
pub fn dollars(amount: f64) -> String {
    if amount == 0.0 || amount >= 0.01 { format!("${amount:.2}") } else { format!("${amount:.6}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.000_012, 1.5].map(dollars), ["$0.00", "$0.000012", "$1.50"]);
        assert_eq!([5, 1500].map(milliseconds), ["5 ms", "1.5 s"]);
    }
}
