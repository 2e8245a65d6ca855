//! Formats values for the pages.

use jiff::Timestamp;

pub(super) use crate::util::percent::encode as in_url;

/// Machine-readable, to the second.
pub(super) fn iso(at: &Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// For display.
pub(super) fn moment(at: &Timestamp) -> String {
    at.strftime("%-d %b %Y, %H:%M:%S UTC").to_string()
}

/// A duration, for display.
pub(super) fn length(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `1 entry`, `2 entries`.
pub(super) fn counted(count: usize, one: &str, more: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_readable() {
        assert_eq!(
            [-1, 0, 59, 61, 3600, 7384].map(length),
            ["0 s", "0 s", "59 s", "1 min 1 s", "1 h 0 min", "2 h 3 min"]
        );
    }
}
