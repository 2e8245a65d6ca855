//! The steps of a sync, for progress display.

use serde::Serialize;

/// A step of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum SyncStep {
    /// Waiting for another sync of the same benchmark.
    Waiting,
    /// Querying the remote.
    Asking,
    /// Receiving; percentage and bytes of the current phase.
    Fetching {
        /// 0 to 100.
        percent: u8,
        /// As reported by git; 0 until then.
        bytes: u64,
    },
    /// Writing files; percentage.
    CheckingOut {
        /// 0 to 100.
        percent: u8,
    },
    /// Finished.
    Done,
}

impl SyncStep {
    /// The step in a line of git's progress.
    pub(super) fn of_line(line: &str) -> Option<Self> {
        let (what, rest) = line.split_once(':')?;
        let percent =
            || rest.split('%').next().and_then(|number| number.trim().parse().ok()).unwrap_or(0).min(100);
        match what {
            "Receiving objects" => {
                Some(Self::Fetching { percent: percent(), bytes: bytes(rest).unwrap_or(0) })
            }
            "Updating files" | "Checking out files" => Some(Self::CheckingOut { percent: percent() }),
            _ => None,
        }
    }
}

/// `… (9/20), 1.20 MiB | 3.00 MiB/s`.
fn bytes(rest: &str) -> Option<u64> {
    let mut words = rest.split_once("), ")?.1.split(' ');
    let number: f64 = words.next()?.parse().ok()?;
    let unit = match words.next()?.trim_end_matches([',', '|']) {
        "bytes" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size that git tells")]
    Some((number * unit) as u64)
}
