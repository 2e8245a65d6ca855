//! The hand-over: how a batch reaches the runner.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::names::{is_artifact_name, is_ref_name, is_repository};
use crate::model::{json_is_text, printable};

/// Where the runner gets the batch from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Handover {
    /// In the dispatch inputs: the archive as base64.
    Inline(String),
    /// An artifact of a workflow run: a zip that contains the archive.
    Artifact {
        /// `owner/name`.
        repo: String,
        /// The workflow run.
        run_id: u64,
        /// Name of the artifact.
        name: String,
    },
    /// A branch that contains the archive.
    Branch {
        /// `owner/name`.
        repo: String,
        /// Name of the branch.
        branch: String,
    },
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(base64) => write!(f, "inline:{base64}"),
            Self::Artifact { repo, run_id, name } => write!(f, "artifact:{repo}/{run_id}/{name}"),
            Self::Branch { repo, branch } => write!(f, "branch:{repo}/{branch}"),
        }
    }
}

// Implemented by hand: prompts, even encoded ones, must not appear in a log.
impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline(base64) => write!(f, "inline:({} characters)", base64.len()),
            other => write!(f, "{other}"),
        }
    }
}

json_is_text!(Handover);

impl FromStr for Handover {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = || {
            "expected `inline:<base64>`, `artifact:<owner>/<repo>/<run id>/<name>` or \
             `branch:<owner>/<repo>/<branch>`"
                .to_owned()
        };
        let (kind, rest) = text.split_once(':').ok_or_else(legal)?;
        match kind {
            "inline" => {
                let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
                if rest.is_empty() || !rest.bytes().all(is_base64) {
                    return Err("expected base64 after `inline:`".to_owned());
                }
                Ok(Self::Inline(rest.to_owned()))
            }
            "artifact" => {
                let (repo, rest) = split_repository(rest).ok_or_else(legal)?;
                let (run_id, name) = rest.split_once('/').ok_or_else(legal)?;
                if !is_artifact_name(name) {
                    return Err(format!("`{}` is not an artifact name", printable(name)));
                }
                Ok(Self::Artifact { repo, run_id: plain_number(run_id)?, name: name.to_owned() })
            }
            "branch" => {
                let (repo, branch) = split_repository(rest).ok_or_else(legal)?;
                if !is_ref_name(branch) {
                    return Err(format!("`{}` is not a valid branch name", printable(branch)));
                }
                Ok(Self::Branch { repo, branch: branch.to_owned() })
            }
            _ => Err(legal()),
        }
    }
}

/// Splits `owner/name/rest`.
fn split_repository(text: &str) -> Option<(String, &str)> {
    let owner = text.find('/')?;
    let name = owner + 1 + text[owner + 1..].find('/')?;
    let repo = &text[..name];
    is_repository(repo).then(|| (repo.to_owned(), &text[name + 1..]))
}

/// A number without leading zeros or signs, so that a workflow run has a single name.
fn plain_number(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if number > 0 && number.to_string() == text => Ok(number),
        _ => Err(format!("`{}` is not a workflow run id", printable(text))),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any hand-over.
    pub(in crate::protocol) fn handovers() -> impl Strategy<Value = Handover> {
        let repo = "[a-z][a-z0-9-]{0,10}/[a-z][a-z0-9._-]{0,8}x";
        prop_oneof![
            "[A-Za-z0-9+/]{1,40}={0,2}".prop_map(Handover::Inline),
            (repo, 1_u64.., "[a-z0-9][A-Za-z0-9._-]{0,20}")
                .prop_map(|(repo, run_id, name)| Handover::Artifact { repo, run_id, name }),
            (repo, "[a-z0-9-]{0,5}[a-z](/[a-z0-9]{1,5}){0,2}")
                .prop_filter("no option", |(_, branch)| !branch.starts_with('-'))
                .prop_map(|(repo, branch)| Handover::Branch { repo, branch }),
        ]
    }

    proptest! {
        #[test]
        fn text_round_trips(handover in handovers()) {
            prop_assert_eq!(handover.to_string().parse::<Handover>().unwrap(), handover.clone());
            let json = serde_json::to_string(&handover).unwrap();
            prop_assert_eq!(serde_json::from_str::<Handover>(&json).unwrap(), handover);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = text.parse::<Handover>();
            let _ = format!("branch:{text}").parse::<Handover>();
            let _ = format!("artifact:{text}").parse::<Handover>();
        }
    }

    #[test]
    fn illegal_text_is_rejected() {
        for text in [
            "inline:",
            "inline:a b",
            "inline:$(x)",
            "branch:o/r",
            "branch:o/r/",
            "branch:o/r/a..b",
            "branch:o/../x",
            "branch:o/r/--upload-pack=x:y",
            "branch:https://evil.example/x",
            "artifact:o/r/1",
            "artifact:o/r/x/n",
            "artifact:o/r/01/n",
            "artifact:o/r/1/../n",
            "artifact:o/r/1/a/b",
            "file:/etc/passwd",
            "x",
        ] {
            assert!(text.parse::<Handover>().is_err(), "{text}");
        }
    }

    #[test]
    fn prompts_do_not_print() {
        let handover = Handover::Inline("c2VjcmV0IHByb21wdA==".to_owned());
        assert_eq!(format!("{handover:?}"), "inline:(20 characters)");
    }
}
