//! The slot for one job: taken before git runs, released in every case.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::watch;

use crate::model::SkillName;

/// The slot for one job at a time.
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct Slot(Arc<watch::Sender<JobPlace>>);

#[derive(Debug, Default)]
struct JobPlace {
    current: Option<RunningJob>,
    closed: bool,
}

/// The job that holds the slot; a second client gets its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningJob {
    /// The skill being evaluated.
    pub skill: SkillName,
    /// Its start time.
    pub started_at: Timestamp,
}

/// Why the slot is not available.
#[derive(Debug)]
pub(in crate::serve) enum SlotError {
    Busy(RunningJob),
    Closed,
}

impl Slot {
    /// Takes the slot.
    pub(in crate::serve) fn take(
        &self,
        skill: &SkillName,
        started_at: Timestamp,
    ) -> Result<SlotGuard, SlotError> {
        let mut taken = Err(SlotError::Closed);
        self.0.send_if_modified(|place| {
            taken = match &place.current {
                Some(current) => Err(SlotError::Busy(current.clone())),
                None if place.closed => Err(SlotError::Closed),
                None => Ok(SlotGuard(self.clone())),
            };
            if taken.is_ok() {
                place.current = Some(RunningJob { skill: skill.clone(), started_at });
            }
            taken.is_ok()
        });
        taken
    }

    /// Closes the slot permanently.
    pub(in crate::serve) fn close(&self) {
        self.0.send_modify(|place| place.closed = true);
    }

    /// Whether the slot is taken.
    pub(in crate::serve) fn is_taken(&self) -> bool {
        self.0.borrow().current.is_some()
    }

    /// Waits until the slot is free.
    pub(in crate::serve) async fn is_free(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|place| place.current.is_none()).await;
    }
}

/// Holds the slot; releases it on drop, also after a panic.
#[derive(Debug)]
pub(in crate::serve) struct SlotGuard(Slot);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|place| place.current = None);
    }
}
