//! `grade`: scores the responses of an earlier run again with the current suite, without calling the model under test. Reuses LLM
//! grades of the same prompt by the same target.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::batch::request_of;
use super::collect::summarize;
use super::execution::{Execution, GithubSettings, ToGrade};
use super::finish::ExecutionResult;
use super::grade::find_test;
use super::grading::{self, Grading};
use super::llm_grading::Graders;
use super::options::AskAgain;
use super::report::{Output, RUN_FILE, RunRecord};
use super::{GradingOptions, Observer, RemoteOptions, RunLimits, TestChoice, inputs};
use crate::config::{Env, did_you_mean};
use crate::github::Access;
use crate::model::{Digest, Exit, Failure, Response, ScoreError, Suite, Target, TestCase, printable};
use crate::protocol::RunnerOptions;
use crate::report::{Results, Summary};
use crate::runner::RunOptions;
use crate::suite::{GraderOptions, SuiteOptions, load_suite};
use crate::util::process_env::ProcessEnv;
use crate::util::regular_file;

/// How many tests a message names.
const LISTED: usize = 5;

/// What to grade again, and how.
pub struct Regrading {
    /// The results directory.
    pub results: PathBuf,
    pub record: RunRecord,
    /// The suite's path, for messages.
    pub shown: PathBuf,
    /// Its file, which may be in a bundle.
    pub suite: PathBuf,
    /// The directory for the new results; by default the results directory.
    pub output: Option<PathBuf>,
    pub grading: GradingOptions,
    /// Tests whose LLM grades are requested again: ids, `all` or `unreadable`.
    pub ask_again: Vec<String>,
    pub targets_file: Option<PathBuf>,
    pub exchange: PathBuf,
    pub limits: RunLimits,
    pub github: Access,
    pub remote: RemoteOptions,
}

/// The result.
pub struct RegradingResult {
    pub execution: Execution,
    pub finished: ExecutionResult,
    /// The directory of the results.
    pub dir: PathBuf,
    pub env: ProcessEnv,
}

impl Regrading {
    /// Grades the responses and replaces the scores.
    pub async fn run(self, observer: Arc<dyn Observer>) -> anyhow::Result<RegradingResult> {
        let cwd = std::env::current_dir().context("cannot find the working directory")?;
        let near = cwd.join(&self.suite).parent().map_or_else(|| cwd.clone(), Path::to_path_buf);
        let mut env = inputs::environment(&near, &cwd)?;
        let suite = Arc::new(self.load(&env, &cwd, &*observer)?);
        let graders = self.graders(&suite, &near, &cwd, &mut env, &*observer)?;
        let ask_again = self.ask_again(&suite)?;
        let grading = Grading::new(&self.grading, Arc::clone(&suite), &env, graders);
        let exchange = inputs::exchange(&self.exchange)?;
        let limits = RunOptions {
            budget_usd: self.limits.budget_usd.or(suite.budget_usd),
            max_requests: self.limits.max_requests,
            deadline: self.limits.deadline,
            secrets: env.secrets().collect(),
            ..RunOptions::default()
        };
        let mut execution = Execution::new(exchange, limits, Arc::clone(&observer));
        execution.github = Some(GithubSettings {
            access: self.github.clone(),
            env: env.process().clone(),
            remote: self.remote.clone(),
            limits: self.limits.over(&RunnerOptions::default()),
        });
        execution.ask_again = ask_again;
        let dir = self.output.clone().unwrap_or_else(|| self.results.clone());
        let mut output = Output::open(Some(dir.clone()))?;
        let (record, to_grade) = self.copy_responses(&suite, &mut output, &*observer)?;
        self.keep_files(&suite, &record, &mut output)?;
        let responses = output.responses_path().context("the responses have no file")?;
        let mut summaries = Vec::new();
        for (batch, ToGrade { range, .. }) in record.batches.iter().zip(&to_grade) {
            summaries.push(summarize(&responses, range.clone(), batch)?);
        }
        let mut summary = Summary::new(Some(suite.name.clone()), summaries);
        let error = execution.grade_into(&grading, &to_grade, &mut output, &mut summary).await?;
        if let Some(error) = error {
            // Keep the earlier scores.
            return Err(error);
        }
        output.finish(&mut summary, &*observer)?;
        let finished = ExecutionResult { summary, error: None };
        Ok(RegradingResult { execution, finished, dir, env: env.process().clone() })
    }

    fn load(&self, env: &Env, cwd: &Path, observer: &dyn Observer) -> anyhow::Result<Suite> {
        let graders = GraderOptions {
            ignore_unknown: self.grading.ignore_unknown_graders,
            allow_commands: self.grading.allow_commands,
        };
        let options = SuiteOptions { env, cwd, graders: Some(graders) };
        let (mut suite, warnings) = load_suite(&self.suite, &options)?;
        observer.warnings(&warnings);
        TestChoice { filter: self.record.filter.clone(), ..TestChoice::default() }.apply(&mut suite)?;
        Ok(suite)
    }

    /// The grader targets. A suite without LLM graders needs no targets file, and the model under test needs no key unless it grades
    /// itself.
    fn graders(
        &self,
        suite: &Suite,
        near: &Path,
        cwd: &Path,
        env: &mut Env,
        observer: &dyn Observer,
    ) -> anyhow::Result<Graders> {
        if !Graders::are_needed(suite) {
            return Ok(Graders::default());
        }
        let file = inputs::targets_file(self.targets_file.as_deref(), near, cwd, observer)?;
        env.mark_secret(file.secret_names());
        let of_command = self.grading.grader_target.as_deref();
        let mut targets = Vec::new();
        for batch in &self.record.batches {
            let alias = suite.targets.iter().find(|target| target.name == batch.target);
            let served_as =
                alias.and_then(|alias| alias.use_target.clone()).unwrap_or_else(|| batch.target.clone());
            let mut target = Graders::target_under_test(suite, &served_as, of_command, &file, env)?;
            match &mut target {
                Target::Runner(target) => target.name.clone_from(&batch.target),
                Target::Remote(target) => target.name.clone_from(&batch.target),
            }
            targets.push((served_as, target));
        }
        let targets: Vec<(&str, &Target)> =
            targets.iter().map(|(name, target)| (name.as_str(), target)).collect();
        Graders::find(suite, &targets, of_command, &file, &self.limits, env)
    }

    fn ask_again(&self, suite: &Suite) -> anyhow::Result<AskAgain> {
        let mut tests = BTreeSet::new();
        for named in &self.ask_again {
            match named.as_str() {
                "all" => return Ok(AskAgain::All),
                "unreadable" => {
                    let results = Results::read(&self.results, &self.results.display().to_string())?;
                    let unread =
                        |row: &crate::model::ScoreRow| matches!(row.error, Some(ScoreError::Grader { .. }));
                    tests.extend(
                        results
                            .trials
                            .into_iter()
                            .filter(|trial| unread(&trial.row))
                            .map(|trial| trial.row.test_id),
                    );
                }
                id if suite.tests.iter().any(|test| test.id == id) => drop(tests.insert(id.to_owned())),
                id => {
                    let near = did_you_mean(id, suite.tests.iter().map(|test| test.id.as_str()));
                    let near =
                        near.map(|id| format!("did you mean `{}`? ", printable(id))).unwrap_or_default();
                    return Err(Failure::new(
                        Exit::Usage,
                        format!("`--ask-again {}`: the suite has no such test", printable(id)),
                    )
                    .hint(format!("{near}`--ask-again` takes the id of a test, `unreadable` or `all`"))
                    .into());
                }
            }
        }
        Ok(if tests.is_empty() { AskAgain::Nothing } else { AskAgain::Tests(tests) })
    }

    /// Copies the responses of tests that the suite still has, and returns the range of each batch.
    fn copy_responses(
        &self,
        suite: &Suite,
        output: &mut Output,
        observer: &dyn Observer,
    ) -> anyhow::Result<(RunRecord, Vec<ToGrade>)> {
        let path = self.results.join("responses.jsonl");
        let cannot = || format!("cannot read `{}`", path.display());
        let mut lines = BufReader::with_capacity(1 << 16, regular_file::open(&path).with_context(cannot)?.0);
        let tests: HashMap<&str, &TestCase> =
            suite.tests.iter().map(|test| (test.id.as_str(), test)).collect();
        let mut record = self.record.clone();
        let (mut to_grade, mut line) = (Vec::new(), Vec::new());
        let (mut removed, mut changed) = (BTreeSet::new(), BTreeSet::new());
        let mut answered: BTreeSet<&str> = BTreeSet::new();
        for batch in &mut record.batches {
            let start = grading::length(output.responses_path().as_deref());
            let mut kept = 0;
            for _ in 0..batch.responses {
                line.clear();
                if lines.read_until(b'\n', &mut line).with_context(cannot)? == 0 {
                    anyhow::bail!(Failure::config(format!(
                        "`{}` has fewer responses than its `{RUN_FILE}` says",
                        path.display()
                    )));
                }
                let response: Response = serde_json::from_slice(&line).with_context(cannot)?;
                let Some((test, trial)) = find_test(&tests, &response.id) else {
                    removed.insert(test_of(&response.id).to_owned());
                    continue;
                };
                let request = serde_json::to_vec(&request_of(test, trial))?;
                if Digest::of(&request) != response.request_sha256 {
                    changed.insert(test.id.clone());
                }
                answered.insert(test.id.as_str());
                output.write_all(&line)?;
                kept += 1;
            }
            output.flush()?;
            batch.requests = batch.requests.saturating_sub(batch.responses - kept);
            batch.responses = kept;
            let range = start..grading::length(output.responses_path().as_deref());
            let (target, run_id, batch_id) =
                (batch.target.clone(), record.run_id.clone(), batch.batch_id.clone());
            to_grade.push(ToGrade { target, run_id, batch_id, range });
        }
        if !removed.is_empty() {
            self.check_removed(&removed, observer)?;
        }
        if !changed.is_empty() {
            observer.warning(&format!(
                "the input of {} has changed since the run: the response answers the earlier input; `run-evals eval` calls the model \
                 again",
                listed(&changed)
            ));
        }
        let new: BTreeSet<String> = suite
            .tests
            .iter()
            .filter(|test| !answered.contains(test.id.as_str()))
            .map(|test| test.id.clone())
            .collect();
        if !new.is_empty() {
            observer.warning(&format!(
                "{} has no response in this run; `run-evals eval` calls the model",
                listed(&new)
            ));
        }
        Ok((record, to_grade))
    }

    /// Responses are never deleted: if the suite has lost tests, the results must go to another directory.
    fn check_removed(&self, removed: &BTreeSet<String>, observer: &dyn Observer) -> anyhow::Result<()> {
        let names = listed(removed);
        if self.output.as_ref().is_some_and(|output| *output != self.results) {
            observer.warning(&format!(
                "the responses of {names} are left out: the suite does not have these tests"
            ));
            return Ok(());
        }
        let message = format!(
            "the run has responses of {names}, which `{}` does not have",
            printable(&self.shown.display().to_string())
        );
        Err(Failure::config(message)
            .hint("pass the suite with `--suite`; `--output DIR` writes the scores of the other tests to another directory")
            .into())
    }

    fn keep_files(&self, suite: &Suite, record: &RunRecord, output: &mut Output) -> anyhow::Result<()> {
        let requests = self.results.join("requests.jsonl");
        if self.output.is_some() && requests.is_file() {
            output.keep("requests.jsonl", |out| {
                Ok(std::io::copy(&mut regular_file::open(&requests)?.0, out).map(drop)?)
            })?;
        }
        output.keep("tests.jsonl", |out| super::plan::write_places(suite, out))?;
        output
            .keep(RUN_FILE, |out| RunRecord { suite: Some(self.shown.clone()), ..record.clone() }.write(out))
    }
}

/// The test id in a request id.
fn test_of(id: &str) -> &str {
    id.rsplit_once('#').map_or(id, |(test, _)| test)
}

fn listed(tests: &BTreeSet<String>) -> String {
    let names: Vec<String> = tests.iter().take(LISTED).map(|id| format!("`{}`", printable(id))).collect();
    let more =
        if tests.len() > LISTED { format!(" and {} more", tests.len() - LISTED) } else { String::new() };
    format!("{}{more}", names.join(", "))
}
