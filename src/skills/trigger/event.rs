//! The push that triggered a step.

use std::path::Path;

use serde::Deserialize;

use crate::model::{CommitSha, Exit, Failure, printable};
use crate::util::process_env::ProcessEnv;

/// The null commit: before a branch was created, and after it was deleted.
const NO_COMMIT: &str = "0000000000000000000000000000000000000000";

/// A push, from the event file of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PushEvent {
    /// The branch or tag, as `refs/…`.
    git_ref: String,
    /// The commit before; `None` if the branch is new.
    before: Option<CommitSha>,
    /// The commit after; `None` if the branch was deleted.
    after: Option<CommitSha>,
}

/// The commits to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Push {
    /// The branch moved.
    Commits {
        /// The commit before; `None` if the branch is new.
        before: Option<CommitSha>,
        /// The commit after.
        after: CommitSha,
    },
    /// Nothing that could be evaluated, with the reason.
    Nothing(String),
}

impl Push {
    /// The commits given on the command line, else those of the step's event.
    pub fn find(before: Option<&str>, after: Option<&str>, env: &ProcessEnv) -> Result<Self, Failure> {
        const WHAT: &str = "pass a skill, or a push with `--before` and `--after`";
        let read = |text: &str, option: &str| {
            PushEvent::commit(text).map_err(|why| {
                Failure::new(Exit::Usage, format!("`{option}` is not a commit: {}", printable(&why)))
                    .hint(WHAT)
            })
        };
        let (before, after) = if let Some(after) = after {
            (read(before.unwrap_or(NO_COMMIT), "--before")?, read(after, "--after")?)
        } else {
            let path = env.get("GITHUB_EVENT_PATH").filter(|path| !path.is_empty());
            let is_push = env.get("GITHUB_EVENT_NAME") == Some("push");
            let path = path
                .filter(|_| is_push)
                .ok_or_else(|| Failure::new(Exit::Usage, "no skill and no push to evaluate").hint(WHAT))?;
            let event = PushEvent::read(Path::new(path))?;
            if !event.git_ref.starts_with("refs/heads/") {
                let name = printable(&event.git_ref);
                return Ok(Self::Nothing(format!("`{name}` is not a branch: nothing to evaluate")));
            }
            (event.before, event.after)
        };
        Ok(match after {
            Some(after) => Self::Commits { before, after },
            None => Self::Nothing("the branch was deleted: nothing to evaluate".to_owned()),
        })
    }
}

impl PushEvent {
    /// Reads an event file.
    fn read(path: &Path) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Event {
            #[serde(rename = "ref")]
            git_ref: String,
            before: String,
            after: String,
        }
        let wrong = |why: String| {
            Failure::config(format!("cannot read the push in `{}`: {why}", path.display()))
                .hint("pass the commits with `--before` and `--after`, or a skill")
        };
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let Event { git_ref, before, after } =
            serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        let before = Self::commit(&before).map_err(&wrong)?;
        let after = Self::commit(&after).map_err(&wrong)?;
        Ok(Self { git_ref, before, after })
    }

    /// A commit, or `None` for the null commit.
    fn commit(text: &str) -> Result<Option<CommitSha>, String> {
        if text == NO_COMMIT {
            return Ok(None);
        }
        text.to_ascii_lowercase().parse().map(Some).map_err(|error| format!("`{text}`: {error}"))
    }
}
