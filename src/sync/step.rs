//! What a sync is doing, for whoever watches.

use serde::Serialize;

/// A step of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Another sync of the same benchmark is at work.
    Waiting,
    /// The other side is asked what it has.
    Asking,
    /// It is received, so many per cent and bytes of this part.
    Fetching {
        /// 0 to 100.
        percent: u8,
        /// As git tells them; 0 until it does.
        bytes: u64,
    },
    /// The files are written, so many per cent.
    CheckingOut {
        /// 0 to 100.
        percent: u8,
    },
    /// It is over.
    Done,
}

impl Step {
    /// The step that a line of git's progress tells.
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
