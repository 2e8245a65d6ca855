//! Grades the collected responses: here, and in a second batch for LLM graders.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;

use super::GradingOptions;
use super::execution::{Execution, ToGrade};
use super::grade::{self, BatchToGrade, Commands, GraderResponses, Pass};
use super::llm_grading::Graders;
use super::report::Output;
use crate::config::Env;
use crate::model::Suite;
use crate::report::GraderUse;
use crate::util::WorkDir;
use crate::util::redact::Redactor;

/// How to grade responses.
pub(super) struct Grading {
    suite: Arc<Suite>,
    /// The default threshold of tests without one.
    pub(super) threshold: Option<f64>,
    commands: Arc<Commands>,
    pub(super) graders: Graders,
}

impl Grading {
    /// Combines the options and the suite.
    pub(super) fn new(options: &GradingOptions, suite: Arc<Suite>, env: &Env, graders: Graders) -> Self {
        // No file of the checkout may set paths or proxies.
        let usual = Commands::ENVIRONMENT.into_iter().map(|name| (name, env.process().get(name)));
        let allowed = options.grader_env.iter().map(|name| (name.as_str(), env.get(name)));
        let env_of_commands = usual
            .chain(allowed)
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        let secrets: Vec<_> = env.secrets().collect();
        let commands = Commands {
            timeout: options.grader_timeout,
            env: env_of_commands,
            redactor: Redactor::new(&secrets),
            temporary: OnceLock::new(),
        };
        let threshold = options.threshold.or(suite.threshold);
        Self { suite, threshold, commands: Arc::new(commands), graders }
    }
}

impl Execution {
    /// Grades the responses of each batch, and writes `scores.jsonl`. Returns what the grading models used, for each batch.
    pub(super) async fn grade(
        &mut self,
        grading: &Grading,
        batches: &[ToGrade],
        output: &mut Output,
    ) -> anyhow::Result<Vec<Option<GraderUse>>> {
        let stop = self.listen(grading.graders.any_remote())?;
        let mut all_used = Vec::new();
        for batch in batches {
            let Some(responses) = output.responses_path() else { return Ok(Vec::new()) };
            let temporary = WorkDir::new().context("cannot create a temporary directory")?;
            let rows = BatchToGrade {
                suite: &grading.suite,
                responses: &responses,
                range: batch.range.clone(),
                threshold: grading.threshold,
                commands: Arc::clone(&grading.commands),
                dir: temporary.path().to_path_buf(),
            };
            let mut used = GraderUse::default();
            let (mut notes, mut answers) = (None, GraderResponses::new());
            loop {
                let scores = output.begin_scores()?;
                let pass =
                    grade::grade(&rows, notes.take(), &answers, scores, stop.requested.clone()).await?;
                match pass {
                    Pass::Done => break,
                    Pass::Asks(asked, new_notes) => {
                        output.forget_scores()?;
                        notes = Some(new_notes);
                        let mut given = BTreeMap::new();
                        for (position, asked) in asked.into_iter().enumerate() {
                            let to = temporary.path().join(format!("answers-{position}.jsonl"));
                            self.ask_graders(&grading.graders, batch, &asked, &to, &mut used).await?;
                            given.insert(asked.target, to);
                        }
                        answers = given;
                    }
                }
            }
            output.keep_scores()?;
            all_used.push((used.requests > 0).then_some(used));
        }
        Ok(all_used)
    }
}

/// The size of a file.
pub(super) fn length(path: Option<&Path>) -> u64 {
    path.and_then(|path| std::fs::metadata(path).ok()).map_or(0, |metadata| metadata.len())
}
