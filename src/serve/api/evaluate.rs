//! `POST /evaluate`: checks the syntax, then takes the slot, then runs git; a second client gets 409 without waiting for git.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::model::{Replicates, ShaPrefix, SkillName, printable};
use crate::serve::evaluation::EvaluationRequest;
use crate::serve::jobs::{JobId, SlotError};
use crate::serve::{App, Refusal, log, read_body, worker};

/// A request has three short fields.
const LARGEST_BODY: usize = 16 * 1024;
/// How long a client waits for git.
const GIT_WITHIN: Duration = Duration::from_mins(5);
const KEYS: [&str; 3] = ["skill_name", "replicates", "git_sha"];

pub(in crate::serve) async fn evaluate(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    if !is_json(&headers) {
        return Err(Refusal::NotJson);
    }
    let body = read_body(body, LARGEST_BODY).await?;
    let fields = serde_json::from_slice(&body).map_err(|error| {
        Refusal::Malformed(format!("the body is not JSON: {}", printable(&error.to_string())))
    })?;
    let job_id = submit(&app, &fields).await?;
    Ok((StatusCode::ACCEPTED, Json(json!({"job_id": job_id}))).into_response())
}

/// Starts a service job: for `POST /evaluate` and for the form of the studio.
pub async fn submit(app: &Arc<App>, fields: &Value) -> Result<JobId, Refusal> {
    let order = order(fields)?;
    let Some(evaluator) = &app.evaluator else {
        return Err(Refusal::NotFound(
            "this service runs no evaluations: it has no skill library".to_owned(),
        ));
    };
    let now = Timestamp::now();
    let taken = app.slot.take(&order.skill, now).map_err(|no_place| match no_place {
        SlotError::Busy(current) => Refusal::Busy(current),
        SlotError::Closed => Refusal::Unavailable("the service is stopping".to_owned()),
    })?;
    let (reply, answer) = oneshot::channel();
    worker::begin(app, evaluator, order, now, taken, reply);
    match tokio::time::timeout(GIT_WITHIN, answer).await {
        Ok(Ok(job_id)) => job_id,
        Ok(Err(_)) => Err(Refusal::Internal),
        Err(_) => Err(Refusal::Unavailable("git did not respond in time".to_owned())),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// Parses a request; reports all mistakes at once.
fn order(value: &Value) -> Result<EvaluationRequest, Refusal> {
    let Value::Object(fields) = value else {
        return Err(Refusal::Invalid("the body must be an object: `{\"skill_name\": …}`".to_owned()));
    };
    let mut problems = Vec::new();
    for key in fields.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        problems.push(format!(
            "unknown key `{}`; legal are `{}`",
            printable(&log::short(key)),
            KEYS.join("`, `")
        ));
    }
    let skill: Option<SkillName> = text(fields, "skill_name", &mut problems);
    let git_sha: Option<ShaPrefix> = text(fields, "git_sha", &mut problems);
    let replicates = replicates(fields.get("replicates"));
    if replicates.is_none() {
        problems.push("`replicates`: a whole number from 1 to 100".to_owned());
    }
    if skill.is_none() && fields.get("skill_name").is_none_or(|name| name.is_null() || name == "") {
        problems.push("`skill_name` is missing".to_owned());
    }
    match (skill, replicates) {
        (Some(skill), Some(replicates)) if problems.is_empty() => {
            Ok(EvaluationRequest::new(skill, replicates, git_sha))
        }
        _ => {
            problems.truncate(8);
            Err(Refusal::Invalid(problems.join("; ")))
        }
    }
}

/// A whole number, or its text: a shell step sends `"10"`, and `""` for an input without a value.
fn replicates(value: Option<&Value>) -> Option<Replicates> {
    let count = match value {
        None | Some(Value::Null) => return Some(Replicates::default()),
        Some(Value::String(text)) if text.is_empty() => return Some(Replicates::default()),
        Some(Value::String(text)) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        Some(number) => number.as_u64().and_then(|count| u32::try_from(count).ok()),
    };
    count.and_then(|count: u32| count.try_into().ok())
}

/// The text of a field; an empty one counts as absent.
fn text<T: std::str::FromStr>(fields: &Map<String, Value>, key: &str, problems: &mut Vec<String>) -> Option<T>
where
    T::Err: std::fmt::Display,
{
    match fields.get(key) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(Value::String(text)) => {
            text.parse().map_err(|error| problems.push(format!("`{key}`: {error}"))).ok()
        }
        Some(_) => {
            problems.push(format!("`{key}`: must be a string"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        let refusal = match serde_json::from_str(body) {
            Ok(fields) => order(&fields).unwrap_err(),
            Err(error) => {
                Refusal::Malformed(format!("the body is not JSON: {}", printable(&error.to_string())))
            }
        };
        format!("{} {}", refusal.status().as_u16(), refusal.reason())
    }

    #[test]
    fn a_request_has_defaults() {
        let read = order(&serde_json::from_str(r#"{"skill_name": "rfp-extraction"}"#).unwrap()).unwrap();
        assert_eq!((read.skill.as_str(), read.replicates.get(), read.git_sha), ("rfp-extraction", 10, None));
        let read = order(
            &serde_json::from_str(r#"{"skill_name": "a", "replicates": null, "git_sha": "ABCDEF0"}"#)
                .unwrap(),
        )
        .unwrap();
        assert_eq!(
            (read.replicates.get(), read.git_sha.unwrap().as_str().to_owned()),
            (10, "abcdef0".to_owned())
        );
    }

    /// A step that builds JSON from its inputs has only strings.
    #[test]
    fn strings_of_a_shell_step_are_accepted() {
        let read =
            order(&serde_json::from_str(r#"{"skill_name": "a", "replicates": "7", "git_sha": ""}"#).unwrap())
                .unwrap();
        assert_eq!((read.replicates.get(), read.git_sha), (7, None));
        let read = order(&serde_json::from_str(r#"{"skill_name": "a", "replicates": ""}"#).unwrap()).unwrap();
        assert_eq!(read.replicates.get(), 10);
    }

    #[test]
    fn mistakes_are_reported() {
        let bodies = [
            "nonsense",
            "[]",
            "{}",
            r#"{"skill_name": "../x"}"#,
            r#"{"skill_name": 7}"#,
            r#"{"skill_name": "a", "git_sha": "--upload-pack=touch /tmp/x"}"#,
            r#"{"skill_name": "a", "git_sha": "HEAD"}"#,
            r#"{"skill_name": "a", "replicates": 0}"#,
            r#"{"skill_name": "a", "replicates": -1}"#,
            r#"{"skill_name": "a", "replicates": 1000000000}"#,
            r#"{"skill_name": "a", "replicates": 1e400}"#,
            r#"{"skill_name": "a", "replicates": 10.0}"#,
            r#"{"skill_name": "a", "replicates": "10.0"}"#,
            r#"{"skill_name": "a", "replicates": "101"}"#,
            r#"{"skill_name": "a", "replicates": " 10"}"#,
            r#"{"skill_name": ""}"#,
            r#"{"skill_name": "a", "skil": 1}"#,
            r#"{"skill_name": "/", "replicates": [], "git_sha": {}, "\u0007": 1}"#,
        ];
        let told: Vec<String> = bodies.iter().map(|body| format!("{body}\n  {}", refused(body))).collect();
        insta::assert_snapshot!(told.join("\n"), @r##"
        nonsense
          400 the body is not JSON: expected ident at line 1 column 2
        []
          422 the body must be an object: `{"skill_name": …}`
        {}
          422 `skill_name` is missing
        {"skill_name": "../x"}
          422 `skill_name`: the name of a skill has 1 to 100 characters of `a-z`, `0-9`, `.`, `_` and `-`, begins with a letter or digit, and has no `..`
        {"skill_name": 7}
          422 `skill_name`: must be a string
        {"skill_name": "a", "git_sha": "--upload-pack=touch /tmp/x"}
          422 `git_sha`: a commit is named by 7 to 40 hexadecimal digits
        {"skill_name": "a", "git_sha": "HEAD"}
          422 `git_sha`: a commit is named by 7 to 40 hexadecimal digits
        {"skill_name": "a", "replicates": 0}
          422 `replicates`: a whole number from 1 to 100
        {"skill_name": "a", "replicates": -1}
          422 `replicates`: a whole number from 1 to 100
        {"skill_name": "a", "replicates": 1000000000}
          422 `replicates`: a whole number from 1 to 100
        {"skill_name": "a", "replicates": 1e400}
          400 the body is not JSON: number out of range at line 1 column 39
        {"skill_name": "a", "replicates": 10.0}
          422 `replicates`: a whole number from 1 to 100
        {"skill_name": "a", "replicates": "10.0"}
          422 `replicates`: a whole number from 1 to 100
        {"skill_name": "a", "replicates": "101"}
          422 `replicates`: a whole number from 1 to 100
        {"skill_name": "a", "replicates": " 10"}
          422 `replicates`: a whole number from 1 to 100
        {"skill_name": ""}
          422 `skill_name` is missing
        {"skill_name": "a", "skil": 1}
          422 unknown key `skil`; legal are `skill_name`, `replicates`, `git_sha`
        {"skill_name": "/", "replicates": [], "git_sha": {}, "\u0007": 1}
          422 unknown key `\u{7}`; legal are `skill_name`, `replicates`, `git_sha`; `skill_name`: the name of a skill has 1 to 100 characters of `a-z`, `0-9`, `.`, `_` and `-`, begins with a letter or digit, and has no `..`; `git_sha`: must be a string; `replicates`: a whole number from 1 to 100
        "##);
    }
}
