//! `eval` grades what it has collected: here, and through a second batch where models grade.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::args::GradingArgs;
use super::asking::Graders;
use super::follow::Following;
use super::output::Output;
use super::session::Session;
use crate::config::Env;
use crate::exchange::LocalExchange;
use crate::grade::{self, Answers, Commands, Pass, Rows};
use crate::model::{BatchId, Redactor, Suite};
use crate::report::{GraderUse, ScoreSummary};

/// How answers are graded.
pub(super) struct Grading {
    /// What the score of a test must reach that does not say so itself.
    pub(super) threshold: Option<f64>,
    commands: Arc<Commands>,
    pub(super) graders: Graders,
}

/// The responses of a batch, to be graded.
pub(super) struct ToGrade {
    pub(super) target: String,
    /// What resumes it.
    pub(super) run_id: BatchId,
    pub(super) batch_id: BatchId,
    /// Where they are in the file of all responses.
    pub(super) range: Range<u64>,
}

impl Grading {
    /// What the command line and the suite say together.
    pub(super) fn new(args: &GradingArgs, suite: &Suite, env: &Env, graders: Graders) -> Self {
        let allowed = Commands::ENVIRONMENT.into_iter().chain(args.grader_env.iter().map(String::as_str));
        let env_of_commands =
            allowed.filter_map(|name| Some((name.to_owned(), env.get(name)?.to_owned()))).collect();
        let secrets: Vec<_> = env.secrets().collect();
        let commands = Commands {
            timeout: args.grader_timeout,
            env: env_of_commands,
            redactor: Redactor::new(&secrets),
        };
        Self { threshold: args.threshold.or(suite.threshold), commands: Arc::new(commands), graders }
    }
}

impl Session<'_> {
    /// Grades the responses of each batch, and writes `scores.jsonl`.
    pub(super) async fn grade<'s>(
        &'s self,
        exchange: &LocalExchange,
        batches: &[ToGrade],
        output: &mut Output,
        following: &mut Following<'s>,
    ) -> anyhow::Result<Vec<ScoreSummary>> {
        let (Some(suite), Some(grading)) = (self.suite(), &self.grading) else { return Ok(Vec::new()) };
        let mut summaries = Vec::new();
        for batch in batches {
            let Some(responses) = output.responses_path() else { return Ok(Vec::new()) };
            let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
            let rows = Rows {
                suite,
                responses: &responses,
                range: batch.range.clone(),
                threshold: grading.threshold,
                commands: Arc::clone(&grading.commands),
                dir: temporary.path().to_path_buf(),
            };
            let mut used = GraderUse::default();
            let (mut notes, mut answers) = (None, Answers::new());
            let tally = loop {
                let scores = output.begin_scores()?;
                let pass =
                    grade::grade(&rows, notes.take(), &answers, scores, following.stop.clone()).await?;
                match pass {
                    Pass::Done(tally) => break tally,
                    Pass::Asks(asked, new_notes) => {
                        output.forget_scores()?;
                        notes = Some(new_notes);
                        let mut given = BTreeMap::new();
                        for (position, asked) in asked.into_iter().enumerate() {
                            let to = temporary.path().join(format!("answers-{position}.jsonl"));
                            self.ask(exchange, batch, &asked, &to, following, &mut used).await?;
                            given.insert(asked.target, to);
                        }
                        answers = given;
                    }
                }
            };
            output.keep_scores()?;
            summaries.push(ScoreSummary {
                passed: tally.passed,
                failed: tally.failed,
                errors: tally.errors,
                skipped: tally.skipped,
                mean: tally.mean(),
                ungraded: tally.ungraded,
                first_error: tally.first_error,
                graders: (used.requests > 0).then_some(used),
            });
        }
        Ok(summaries)
    }
}

/// How many bytes a file has.
pub(super) fn length(path: Option<&Path>) -> u64 {
    path.and_then(|path| std::fs::metadata(path).ok()).map_or(0, |metadata| metadata.len())
}
