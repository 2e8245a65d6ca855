//! The processes of a command.

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The process group of a command; dropping it kills all processes.
pub struct ProcessGroup(Pid);

impl ProcessGroup {
    /// The group of a child that was started in its own; `None` if it has ended.
    pub fn of(child: &Child) -> Option<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        id.and_then(Pid::from_raw).map(Self)
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Fails if all have ended.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}
