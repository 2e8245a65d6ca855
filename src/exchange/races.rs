//! Patience with others who commit to the same branch.

use std::thread;
use std::time::Duration;

use crate::git::GitError;

/// Somebody wins every race, so that even many publishers at once get through.
const MOST: u32 = 15;
const FIRST_WAIT: Duration = Duration::from_millis(4);
const LONGEST_WAIT: Duration = Duration::from_millis(400);

/// Counts the races that were lost in a row.
#[derive(Debug, Default)]
pub(super) struct Races {
    lost: u32,
}

impl Races {
    /// Waits a little, at random and longer each time; gives up after many.
    pub(super) fn lost(&mut self, error: GitError) -> anyhow::Result<()> {
        self.lost += 1;
        if self.lost >= MOST {
            let context = format!("cannot commit: the branch was moved or locked {MOST} times meanwhile");
            return Err(anyhow::Error::new(error).context(context));
        }
        let longest = (FIRST_WAIT * 2_u32.saturating_pow(self.lost)).min(LONGEST_WAIT);
        thread::sleep(longest.mul_f64(fastrand::f64()));
        Ok(())
    }
}
