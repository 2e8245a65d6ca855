//! Grades prose with a model: a second batch, `<batch>-g`, on the same path as the first.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use super::backends::{self, ServedModel};
use super::failure::Failure;
use super::messages;
use super::workspace::Workspace;
use crate::config::{ModelSettings, Skill};
use crate::engine::Execution;
use crate::model;
use crate::model::{
    BatchId, Content, ErrorKind, Exit, FinishReason, Message, Metadata, Params, Request, Response, Role,
    printable,
};
use crate::report::GraderUse;
use crate::scoring::fields::{GRADER_AGAIN, GRADER_SYSTEM, GradedText, Verdicts};
use crate::util::WorkDir;

/// The longest suffix of a grader's batch id.
const LONGEST_SUFFIX: usize = "-g9999".len();
/// The longest batch id.
const LONGEST_BATCH_ID: usize = 60;

/// The model that grades the prose of a skill.
pub(super) struct ProseGrader {
    served: ServedModel,
}

/// The grades of one model's answers.
pub(super) enum Grades {
    /// Every text has a verdict.
    Complete(Box<CompleteGrades>),
    /// Some texts have none; a later run may add them.
    Incomplete(model::Failure),
}

/// A verdict for every text.
#[derive(Default)]
pub(super) struct CompleteGrades {
    pub(super) verdicts: Verdicts,
    pub(super) used: GraderUse,
    /// The replies, as JSONL.
    pub(super) rows: Vec<u8>,
    pub(super) warnings: Vec<String>,
}

impl ProseGrader {
    /// Finds a target for the model that the skill's rules name, before the first call.
    pub(super) async fn find(workspace: &Workspace, skill: &Skill) -> Result<Option<Self>, Failure> {
        let Some(rule) = skill.rules.grader() else { return Ok(None) };
        let settings = ModelSettings {
            id: rule.model.clone(),
            temperature: rule.temperature,
            max_tokens: rule.max_tokens,
            seed: rule.seed,
            structured_output: None,
            timeout: None,
        };
        let (mut served, mut missing, _) = backends::find_any(workspace, &[settings]).await?;
        match (served.pop(), missing.pop()) {
            (Some(served), _) => Ok(Some(Self { served })),
            (None, missing) => {
                let why = missing.map(|missing| missing.reason).unwrap_or_default();
                let message = format!(
                    "`{}` grades prose of `{}` (`grader` in `evals/scoring.yaml`), but {why}",
                    printable(&rule.model),
                    skill.name
                );
                Err(model::Failure::new(Exit::Failure, message)
                    .hint("add a target that serves it, or set another model in the skill's `scoring.yaml`")
                    .into())
            }
        }
    }

    /// The model's name.
    pub(super) fn model(&self) -> &str {
        &self.served.settings.id
    }

    /// Refuses a batch id that is too long for the grader's suffix, before any call.
    pub(super) fn check_name(batch: &BatchId) -> Result<(), model::Failure> {
        if batch.as_str().len() + LONGEST_SUFFIX <= LONGEST_BATCH_ID {
            return Ok(());
        }
        let message = format!("the batch id `{batch}` is too long for a skill with model-graded prose");
        Err(model::Failure::new(Exit::Usage, message).hint("choose a shorter `--batch-id`"))
    }

    /// Grades the texts of one model's responses. Reuses earlier grades.
    pub(super) async fn grade(
        &self,
        execution: &mut Execution,
        batch: &BatchId,
        texts: &BTreeMap<String, GradedText>,
    ) -> Result<Grades, Failure> {
        let mut complete = CompleteGrades::default();
        let temporary = WorkDir::new().context("cannot create a temporary directory")?;
        let mut open: Vec<(&String, &GradedText)> = texts.iter().collect();
        let (mut failed, mut refused) = (BTreeMap::<&str, u64>::new(), 0);
        // Request an unreadable reply once more.
        for is_again in [false, true] {
            if open.is_empty() {
                break;
            }
            let (requests, to) = files(temporary.path(), is_again);
            std::fs::write(&requests, self.requests(&open, is_again)?)
                .context("cannot write the requests")?;
            let used = &mut complete.used;
            let stopped = execution.ask_grader(&self.served.target, batch, &requests, &to, used).await?;
            if let Some(reason) = stopped {
                return messages::stopped(reason, self.model()).map(Grades::Incomplete);
            }
            let rows = std::fs::read(&to).context("cannot read the grades")?;
            complete.rows.extend_from_slice(&rows);
            let mut rows = rows.split(|byte| *byte == b'\n');
            let mut unreadable = Vec::new();
            for (id, text) in open {
                let row = rows.next().filter(|row| !row.is_empty()).context("a grade is missing")?;
                let row: Response = serde_json::from_slice(row).context("cannot read a grade")?;
                if row.id != request_id(id, is_again) {
                    return Err(anyhow::anyhow!("the grades are out of order").into());
                }
                match &row.error {
                    Some(error) if matches!(error.kind, ErrorKind::BadRequest | ErrorKind::ContextLength) => {
                        refused += 1;
                        complete.verdicts.insert(id.clone(), false);
                    }
                    Some(error) => *failed.entry(error.kind.as_str()).or_default() += 1,
                    None => match reply(&row).and_then(|reply| text.verdict(reply)) {
                        Some(verdict) => {
                            complete.verdicts.insert(id.clone(), verdict);
                        }
                        None => unreadable.push((id, text)),
                    },
                }
            }
            open = unreadable;
        }
        let answered = complete.verdicts.len() as u64 - refused + open.len() as u64;
        let without: u64 = failed.values().sum::<u64>() + if answered == 0 { refused } else { 0 };
        if without > 0 {
            let why = failed.keys().next().map(|kind| format!(": {kind}")).unwrap_or_default();
            let message = format!(
                "`{}` on target `{}` graded {answered} of {} texts{why}",
                printable(self.model()),
                self.served.served_by,
                texts.len()
            );
            return Ok(Grades::Incomplete(model::Failure::new(Exit::Failure, message)));
        }
        let note = |count: u64, what: &str| {
            format!("{count} of {} texts count as wrong: `{}` {what}", texts.len(), printable(self.model()))
        };
        if refused > 0 {
            complete.warnings.push(note(refused, "refused to grade them"));
        }
        if !open.is_empty() {
            complete.warnings.push(note(open.len() as u64, "gave no readable grade for them"));
        }
        complete.verdicts.extend(open.into_iter().map(|(id, _)| (id.clone(), false)));
        Ok(Grades::Complete(Box::new(complete)))
    }

    /// The requests as JSONL: the same bytes for the same texts.
    fn requests(&self, texts: &[(&String, &GradedText)], is_again: bool) -> anyhow::Result<Vec<u8>> {
        let message = |role, text: &str| Message { role, content: Content::Text(text.to_owned()) };
        let settings = &self.served.settings;
        let mut lines = Vec::new();
        for (id, text) in texts {
            let system =
                if is_again { format!("{GRADER_SYSTEM}\n{GRADER_AGAIN}") } else { GRADER_SYSTEM.to_owned() };
            let messages = vec![message(Role::System, &system), message(Role::User, &text.question())];
            let request = Request {
                id: request_id(id, is_again),
                messages,
                params: Params {
                    temperature: settings.temperature,
                    max_tokens: settings.max_tokens,
                    seed: settings.seed,
                    ..Params::default()
                },
                tools: Vec::new(),
                files: Vec::new(),
                metadata: Metadata { test_id: (*id).clone(), replicate: 1, ..Metadata::default() },
            };
            serde_json::to_writer(&mut lines, &request)?;
            lines.write_all(b"\n")?;
        }
        Ok(lines)
    }
}

fn files(dir: &Path, is_again: bool) -> (std::path::PathBuf, std::path::PathBuf) {
    let name = if is_again { "again" } else { "first" };
    (dir.join(format!("{name}-requests.jsonl")), dir.join(format!("{name}-grades.jsonl")))
}

fn request_id(id: &str, is_again: bool) -> String {
    if is_again { format!("{id}/again") } else { id.to_owned() }
}

/// The grader's reply; `None` if it was truncated.
fn reply(row: &Response) -> Option<&str> {
    if row.finish_reason == Some(FinishReason::Length) {
        return None;
    }
    row.output.as_deref().and_then(<[_]>::last).map(|message| message.content.as_str())
}
