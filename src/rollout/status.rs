//! How a rollout stands, in the codes that tracing endpoints and Eval Protocol share: those of gRPC, and a few more.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::ErrorKind;
use crate::providers::CallError;

/// The codes that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Somebody ended it.
    Cancelled = 1,
    /// What was asked for makes no sense.
    InvalidArgument = 3,
    /// It took too long.
    DeadlineExceeded = 4,
    /// Something that it needs is not there.
    NotFound = 5,
    /// The owner of the runner does not allow it.
    PermissionDenied = 7,
    /// A limit or a budget is used up.
    ResourceExhausted = 8,
    /// It went wrong.
    Internal = 13,
    /// A server was not there.
    Unavailable = 14,
    /// The key is not accepted.
    Unauthenticated = 16,
    /// It is done.
    Finished = 100,
    /// It goes on.
    Running = 101,
}

/// How a rollout stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The code; an open set.
    pub code: i64,
    /// In words.
    #[serde(default)]
    pub message: String,
    /// The workflow run that has said so, where that is known.
    #[serde(skip)]
    pub by_run: Option<u64>,
}

impl Status {
    /// A status with one of the known codes.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code: code as i64, message: message.into(), by_run: None }
    }

    /// What a failed call means for its rollout.
    pub fn of_call(error: &CallError) -> Self {
        let code = match error.kind {
            // The key is known, and may not do this: another model, another server.
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

    /// Whether it goes on.
    pub fn is_running(&self) -> bool {
        self.code == Code::Running as i64
    }

    /// As tracing endpoints and Eval Protocol write it.
    pub fn to_json(&self) -> Value {
        json!({"code": self.code, "message": self.message, "details": []})
    }
}
