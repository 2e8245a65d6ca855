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

/// A share in percent, rounded to one digit.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Two shares in percent, with as many digits as it takes to tell them apart: 99.96 % is below 100.00 %, not below itself.
pub fn percents_apart(low: f64, high: f64) -> [String; 2] {
    const MOST_DIGITS: usize = 6;
    let with = |digits: usize| [low, high].map(|share| format!("{:.digits$} %", share * 100.0));
    (1..MOST_DIGITS).map(with).find(|[low, high]| low != high).unwrap_or_else(|| with(MOST_DIGITS))
}

/// A number of things: `1 test`, `2 tests`.
pub fn counted(count: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {one}{plural}", thousands(count))
}

/// The value below which this percentage of the values lies, by nearest rank.
pub fn percentile<T: Copy + Ord>(values: &mut [T], percent: usize) -> Option<T> {
    let rank = (values.len() * percent).div_ceil(100).max(1) - 1;
    (!values.is_empty()).then(|| *values.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_nearest_rank() {
        let mut durations = [30, 10, 20, 40];
        assert_eq!(percentile(&mut durations, 50), Some(20));
        assert_eq!(percentile(&mut durations, 95), Some(40));
        assert_eq!(percentile::<u64>(&mut [], 50), None);
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.000_012, 1.5].map(dollars), ["$0.00", "$0.000012", "$1.50"]);
        assert_eq!([5, 1500].map(milliseconds), ["5 ms", "1.5 s"]);
        assert_eq!([1, 1200].map(|count| counted(count, "test")), ["1 test", "1,200 tests"]);
    }
    #[test]
    fn shares_are_rounded() {
        assert_eq!([0.9996, 0.7, 2.0 / 3.0].map(percent), ["100.0 %", "70.0 %", "66.7 %"]);
        assert_eq!(percents_apart(0.9996, 1.0), ["99.96 %", "100.00 %"]);
        assert_eq!(percents_apart(0.5, 0.9), ["50.0 %", "90.0 %"]);
    }
}
