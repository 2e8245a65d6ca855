//! The status of a rollout, in the codes of tracing endpoints and Eval Protocol: gRPC's, and a few more.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::ErrorKind;
use crate::providers::CallError;

/// The codes used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// It was cancelled.
    Cancelled = 1,
    /// The request is invalid.
    InvalidArgument = 3,
    /// It took too long.
    DeadlineExceeded = 4,
    /// Something it needs was not found.
    NotFound = 5,
    /// The owner of the runner does not allow it.
    PermissionDenied = 7,
    /// A limit or a budget is exhausted.
    ResourceExhausted = 8,
    /// It failed.
    Internal = 13,
    /// A server was unavailable.
    Unavailable = 14,
    /// The key is not accepted.
    Unauthenticated = 16,
    /// It is done.
    Finished = 100,
    /// It is running.
    Running = 101,
}

/// The status of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The code; an open set.
    pub code: i64,
    /// The message.
    #[serde(default)]
    pub message: String,
    /// The workflow run that reported it, if known.
    #[serde(skip)]
    pub by_run: Option<u64>,
}

impl Status {
    /// A status with one of the known codes.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code: code as i64, message: message.into(), by_run: None }
    }

    /// The status of a rollout whose call failed.
    pub fn of_call(error: &CallError) -> Self {
        let code = match error.kind {
            // The key is valid, but lacks permission for the model or server.
            _ if error.status == Some(403) => Code::PermissionDenied,
            ErrorKind::RateLimited | ErrorKind::Quota => Code::ResourceExhausted,
            ErrorKind::Auth => Code::Unauthenticated,
            ErrorKind::Timeout => Code::DeadlineExceeded,
            ErrorKind::Connection | ErrorKind::Server => Code::Unavailable,
            ErrorKind::BadRequest => Code::InvalidArgument,
            ErrorKind::NotFound => Code::NotFound,
            _ => Code::Internal,
        };
        Self::new(code, error.message.clone())
    }

    /// Whether the rollout is done.
    pub fn is_finished(&self) -> bool {
        self.code == Code::Finished as i64
    }

    /// Whether it is running.
    pub fn is_running(&self) -> bool {
        self.code == Code::Running as i64
    }

    /// The JSON of tracing endpoints and Eval Protocol.
    pub fn to_json(&self) -> Value {
        json!({"code": self.code, "message": self.message, "details": []})
    }
}
