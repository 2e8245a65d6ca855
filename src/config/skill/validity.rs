//! Whether a value fits a schema that somebody else wrote.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

const LONGEST: Duration = Duration::from_secs(10);

/// A schema, ready to hold values against.
#[derive(Debug, Clone)]
pub struct SchemaCheck {
    validator: Arc<jsonschema::Validator>,
    is_endless: Arc<AtomicBool>,
}

impl SchemaCheck {
    /// Makes a schema ready; the error says what is wrong with it.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::options().build(schema).map_err(|error| error.to_string())?;
        Ok(Self { validator: Arc::new(validator), is_endless: Arc::default() })
    }

    /// Why a value does not fit; nothing where it does. A schema can be written so that the work doubles with each of its
    /// lines: then nobody waits for the end, and nothing fits it from there on.
    pub fn misfit(&self, value: &Value) -> Option<String> {
        const TOO_LONG: &str = "the schema takes too long";
        if self.is_endless.load(Ordering::Relaxed) {
            return Some(TOO_LONG.to_owned());
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let (validator, value) = (Arc::clone(&self.validator), value.clone());
        std::thread::spawn(move || {
            let _ = sender.send(validator.validate(&value).err().map(|error| error.to_string()));
        });
        receiver.recv_timeout(LONGEST).unwrap_or_else(|_| {
            self.is_endless.store(true, Ordering::Relaxed);
            Some(TOO_LONG.to_owned())
        })
    }
}
