//! Starts a workflow run: the one request that must not be sent twice.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::call::{ApiResponse, Call};
use super::client::Client;
use super::error::{About, ApiError, ErrorBody, short};
use super::repository::file_name;

/// Outcome of a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dispatched {
    /// The workflow run exists.
    Started {
        /// Id of the workflow run.
        run_id: u64,
        /// URL of the workflow run.
        html_url: String,
    },
    /// Accepted, without an id of the workflow run.
    Accepted,
    /// Unknown whether the workflow run exists.
    Unknown {
        /// Why the outcome is unknown.
        reason: String,
    },
}

impl Client {
    /// Starts a workflow. Retries only if GitHub rejected the request without effect.
    pub async fn dispatch(
        &self,
        repo: &str,
        workflow: &str,
        git_ref: &str,
        inputs: &BTreeMap<String, String>,
    ) -> Result<Dispatched, ApiError> {
        let workflow = file_name(workflow);
        let url = self.repo_url(repo, &["actions", "workflows", workflow, "dispatches"])?;
        let mut call = Call::post(About::Dispatch, repo, &workflow, url, None);
        loop {
            let details = !self.inner.no_run_details.load(Ordering::Relaxed);
            let mut body = json!({"ref": git_ref, "inputs": inputs});
            if details {
                body["return_run_details"] = true.into();
            }
            call.body = Some(body);
            let answer = match self.call(call.clone()).await {
                Ok(answer) => answer,
                Err(ApiError::Unreachable { sent: true, host, cause }) => {
                    return Ok(Dispatched::Unknown { reason: format!("no response from `{host}`: {cause}") });
                }
                Err(error) => return Err(error),
            };
            if details && is_unknown_key(&answer) {
                // Old servers reject the key and start nothing.
                self.inner.no_run_details.store(true, Ordering::Relaxed);
                continue;
            }
            return match outcome(&answer) {
                Some(dispatched) => Ok(dispatched),
                None => Err(self.refused(&call, &answer)),
            };
        }
    }
}

/// The outcome of a response; `None` for a rejection.
fn outcome(answer: &ApiResponse) -> Option<Dispatched> {
    #[derive(Deserialize)]
    struct Details {
        workflow_run_id: u64,
        html_url: String,
    }
    let code = answer.status.as_u16();
    let unknown = |reason: String| Some(Dispatched::Unknown { reason });
    match answer.status {
        StatusCode::NO_CONTENT => Some(Dispatched::Accepted),
        status if status.is_success() => match serde_json::from_slice(&answer.body) {
            Ok(Details { workflow_run_id, html_url }) => {
                Some(Dispatched::Started { run_id: workflow_run_id, html_url: short(&html_url) })
            }
            Err(_) => unknown(format!("GitHub returned {code} without the run")),
        },
        status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            match ErrorBody::of(&answer.headers, &answer.body) {
                ErrorBody::Message(text) => unknown(format!("GitHub returned {code}: {text}")),
                ErrorBody::Page => unknown(format!("got {code} with a web page")),
                ErrorBody::Nothing => unknown(format!("GitHub returned {code}")),
            }
        }
        _ => None,
    }
}

fn is_unknown_key(answer: &ApiResponse) -> bool {
    answer.status == StatusCode::UNPROCESSABLE_ENTITY
        && ErrorBody::of(&answer.headers, &answer.body).text().contains("return_run_details")
}
