//! The one place for a job: taken before git is asked, free again whatever happens.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::watch;

use crate::model::SkillName;

/// Where one job at a time has its place.
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct Slot(Arc<watch::Sender<JobPlace>>);

#[derive(Debug, Default)]
struct JobPlace {
    current: Option<Current>,
    closed: bool,
}

/// Who has the place; whoever comes too late is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Current {
    /// The skill that is evaluated.
    pub skill: SkillName,
    /// Since when.
    pub started_at: Timestamp,
}

/// Why there is no place.
#[derive(Debug)]
pub(in crate::serve) enum SlotError {
    Busy(Current),
    Closed,
}

impl Slot {
    /// Takes the place.
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
                place.current = Some(Current { skill: skill.clone(), started_at });
            }
            taken.is_ok()
        });
        taken
    }

    /// Gives it to nobody any more.
    pub(in crate::serve) fn close(&self) {
        self.0.send_modify(|place| place.closed = true);
    }

    /// Whether somebody has it.
    pub(in crate::serve) fn is_taken(&self) -> bool {
        self.0.borrow().current.is_some()
    }

    /// Waits until nobody has it.
    pub(in crate::serve) async fn is_free(&self) {
        // The sender lives as long as this does.
        let _ = self.0.subscribe().wait_for(|place| place.current.is_none()).await;
    }
}

/// Whoever holds this has the place; it is free when this is gone, after a panic too.
#[derive(Debug)]
pub(in crate::serve) struct SlotGuard(Slot);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|place| place.current = None);
    }
}
