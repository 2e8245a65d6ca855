//! The one place for a job: taken before git is asked, free again whatever happens.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::Serialize;

use crate::model::SkillName;

/// Where one job at a time has its place.
#[derive(Debug, Clone, Default)]
pub(in crate::serve) struct Slot(Arc<Mutex<Place>>);

#[derive(Debug, Default)]
struct Place {
    current: Option<Current>,
    closed: bool,
}

/// What whoever comes too late is told.
#[derive(Debug, Clone, Serialize)]
pub(in crate::serve) struct Current {
    pub(in crate::serve) skill: SkillName,
    pub(in crate::serve) started_at: Timestamp,
}

/// Why there is no place.
#[derive(Debug)]
pub(in crate::serve) enum NoPlace {
    Busy(Current),
    Closed,
}

impl Slot {
    /// Takes the place.
    pub(in crate::serve) fn take(&self, skill: &SkillName, started_at: Timestamp) -> Result<Taken, NoPlace> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if place.closed {
            return Err(NoPlace::Closed);
        }
        if let Some(current) = &place.current {
            return Err(NoPlace::Busy(current.clone()));
        }
        place.current = Some(Current { skill: skill.clone(), started_at });
        Ok(Taken(self.clone()))
    }

    /// Gives it to nobody any more.
    pub(in crate::serve) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
    }

    /// Whether somebody has it.
    pub(in crate::serve) fn is_taken(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).current.is_some()
    }
}

/// Whoever holds this has the place; it is free when this is gone, after a panic too.
#[derive(Debug)]
pub(in crate::serve) struct Taken(Slot);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).current = None;
    }
}
