//! Validation against untrusted JSON Schemas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

const LONGEST: Duration = Duration::from_secs(10);
const TOO_LONG: &str = "the schema takes too long";

/// A compiled schema.
#[derive(Debug, Clone)]
pub struct SchemaCheck {
    validator: Arc<jsonschema::Validator>,
    is_endless: Arc<AtomicBool>,
}

/// Result of a validation.
#[derive(Debug)]
pub enum Fit {
    Yes,
    /// With the reason.
    No(String),
    /// The check was aborted, with the reason.
    Unknown(String),
}

impl SchemaCheck {
    /// Compiles a schema.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::options().build(schema).map_err(|error| error.to_string())?;
        Ok(Self { validator: Arc::new(validator), is_endless: Arc::default() })
    }

    /// Validates a value. An untrusted schema can take exponential time: such a check is aborted, and so
    /// are all later ones with the same schema.
    pub fn check(&self, value: &Value) -> Fit {
        if self.is_endless.load(Ordering::Relaxed) {
            return Fit::Unknown(TOO_LONG.to_owned());
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let (validator, value) = (Arc::clone(&self.validator), value.clone());
        std::thread::spawn(move || {
            let fit = match validator.validate(&value) {
                Ok(()) => Fit::Yes,
                Err(error) => match error.kind() {
                    ValidationErrorKind::BacktrackLimitExceeded { .. } => Fit::Unknown(error.to_string()),
                    _ => Fit::No(error.to_string()),
                },
            };
            let _ = sender.send(fit);
        });
        receiver.recv_timeout(LONGEST).unwrap_or_else(|_| {
            self.is_endless.store(true, Ordering::Relaxed);
            Fit::Unknown(TOO_LONG.to_owned())
        })
    }

    /// Why a value does not match, or why the check was aborted.
    pub fn misfit(&self, value: &Value) -> Option<String> {
        match self.check(value) {
            Fit::Yes => None,
            Fit::No(reason) | Fit::Unknown(reason) => Some(reason),
        }
    }
}
