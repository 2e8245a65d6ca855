//! Reports on a results directory: reads, compares and judges it, and writes every requested format.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::baseline::{self, Baseline};
use super::{agentv_run, write_file, write_summary};
use crate::console::actions;
use crate::engine::Observer;
use crate::github::{Client, CommentPut};
use crate::model::{Evaluation, Exit, Failure, ProblemKind, ScoreStatus, Trial, printable};
use crate::report::{
    LONGEST_SUMMARY, REPORT_FILE, Results, Summary, render_comment, render_html, render_junit, render_verdict,
};
use crate::scoring::{ComparisonOptions, Gate, assess, compare, judge};
use crate::util::process_env::ProcessEnv;

/// What to report, where, and what counts as a failure.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The targets to report; by default all.
    pub targets: Vec<String>,
    /// The baseline, by the user's name for it.
    pub baseline: Option<String>,
    /// The target of the baseline, or of these results, that every target is compared with.
    pub baseline_target: Option<String>,
    /// Whether the results become the baseline.
    pub bless: bool,
    /// The problems that fail the command, if not the default.
    pub fail_on: Option<BTreeSet<ProblemKind>>,
    /// The share of trials that must pass.
    pub min_pass_rate: Option<f64>,
    /// The false-alarm rate of the regression test.
    pub alpha: f64,
    /// The path of the HTML page.
    pub html: Option<PathBuf>,
    /// The path of the `JUnit` XML.
    pub junit: Option<PathBuf>,
    /// The path of the markdown.
    pub markdown: Option<PathBuf>,
    /// The path of the JSON.
    pub json: Option<PathBuf>,
    /// The run directory for AgentV.
    pub agentv_run: Option<PathBuf>,
    /// Whether to comment on a pull request.
    pub pr_comment: bool,
    /// Its repository; by default the workflow's.
    pub repo: Option<String>,
    /// Its number; by default that of the event.
    pub pr: Option<u64>,
}

/// A results directory with its verdict.
pub struct Report {
    /// The figures and the verdict.
    pub evaluation: Evaluation,
    /// The rows.
    pub results: Results,
    /// The exit code of the verdict.
    pub exit: Exit,
    dir: PathBuf,
    earlier: Option<Results>,
    baseline: Option<Baseline>,
    pull_request: Option<(String, u64)>,
}

impl Report {
    /// Reads the results, compares them with the baseline and judges them.
    pub fn read(
        dir: &Path,
        options: &ReportOptions,
        env: &ProcessEnv,
        observer: &dyn Observer,
    ) -> anyhow::Result<Self> {
        let shown = dir.display().to_string();
        let mut results = Results::read(dir, &shown)?;
        if !options.targets.is_empty() {
            results.keep_targets(&options.targets)?;
        }
        // Before anything is written: a missing baseline is a usage error.
        let baseline = options.find_baseline()?;
        let mut earlier = baseline.as_ref().map(Baseline::read).transpose()?.flatten();
        let is_own = baseline.is_none() && options.baseline_target.is_some();
        if is_own {
            earlier = Some(Results::read(dir, &shown)?);
        }
        if let (Some(earlier), Some(target)) = (&mut earlier, &options.baseline_target) {
            earlier.keep_targets(std::slice::from_ref(target))?;
        }
        let pull_request = options.find_pull_request(env, observer)?;
        let mut evaluation = assess(results.suite.clone(), &results.trials);
        if let (true, Some(target), [only]) = (is_own, &options.baseline_target, &evaluation.targets[..])
            && only.target == *target
        {
            let message =
                format!("`{}` has no target to compare with `{}`", printable(&shown), printable(target));
            return Err(Failure::config(message).hint("compare with another run: `--baseline RUN`").into());
        }
        if let Some(earlier) = &earlier {
            let against = ComparisonOptions {
                baseline: options.baseline.as_deref().unwrap_or(&shown),
                target: options.baseline_target.as_deref(),
                is_own,
                alpha: options.alpha,
            };
            compare(&mut evaluation, &results.trials, &earlier.trials, against);
        }
        let gate = Gate {
            fail_on: options.fail_on.clone(),
            has_baseline: options.baseline.is_some() || is_own,
            has_threshold: results.about.threshold.is_some(),
            min_pass_rate: options.min_pass_rate,
            accepts_regression: options.bless,
        };
        let exit = judge(&mut evaluation, &results.trials, &gate);
        if !results.is_graded {
            observer.warning(&format!("`{}` has no `scores.jsonl`: nothing was graded", dir.display()));
        }
        Ok(Self { evaluation, results, exit, dir: dir.to_owned(), earlier, baseline, pull_request })
    }

    /// The evaluation as JSON.
    pub fn json(&self) -> anyhow::Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(&self.evaluation)?))
    }

    /// Adds the verdict and the figures to a summary, and writes it and the page to the results directory.
    pub fn record(&self, summary: &mut Summary) -> anyhow::Result<()> {
        summary.add_evaluation(&self.evaluation);
        write_summary(&self.dir, summary)?;
        write_file(&self.dir.join(REPORT_FILE), self.html().as_bytes())
    }

    fn html(&self) -> String {
        render_html(&self.evaluation, &self.results, self.earlier.as_ref())
    }

    /// Writes the files. `needs_scores`: a run directory for AgentV without scores is an error.
    pub fn write_files(
        &self,
        options: &ReportOptions,
        needs_scores: bool,
        observer: &dyn Observer,
    ) -> anyhow::Result<()> {
        let (evaluation, results) = (&self.evaluation, &self.results);
        if let Some(path) = &options.html {
            write_file(path, self.html().as_bytes())?;
        }
        if let Some(path) = &options.junit {
            write_file(path, render_junit(evaluation, results).as_bytes())?;
        }
        if let Some(path) = &options.markdown {
            write_file(path, render_verdict(evaluation, results, LONGEST_SUMMARY).as_bytes())?;
        }
        if let Some(path) = &options.json {
            write_file(path, self.json()?.as_bytes())?;
        }
        match &options.agentv_run {
            Some(to) if results.is_graded || needs_scores => {
                agentv_run::write(&self.dir, evaluation.suite.as_deref().unwrap_or("eval"), to)
            }
            Some(to) => {
                observer.warning(&format!("`{}` was not written: nothing was graded", to.display()));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Comments on the pull request, if there is one.
    pub async fn comment(
        &self,
        client: impl FnOnce() -> anyhow::Result<Client>,
        env: &ProcessEnv,
        observer: &dyn Observer,
    ) -> anyhow::Result<()> {
        let Some((repo, number)) = &self.pull_request else { return Ok(()) };
        let comment = render_comment(&self.evaluation, &self.results, actions::run_url(env).as_deref());
        let put = client()?.put_comment(repo, *number, &comment.mark, &comment.body).await;
        let (what, url) = match put.map_err(Failure::from)? {
            CommentPut::Created(url) => ("made", url),
            CommentPut::Updated(url) => ("updated", url),
            CommentPut::Unchanged(url) => ("left as it is", url),
        };
        observer.note(&format!("comment {what}: {}", printable(&url)));
        Ok(())
    }

    /// Makes the results the baseline, or returns why not.
    pub fn bless(&self, observer: &dyn Observer) -> anyhow::Result<Option<String>> {
        let Some(baseline) = &self.baseline else { return Ok(None) };
        let trials = &self.results.trials;
        let open = trials.iter().filter(|trial| trial.is_open).count();
        if open > 0 {
            let message =
                format!("the baseline was not changed: {open} of {} requests can be retried", trials.len());
            return Ok(Some(message));
        }
        let is_graded = |trial: &Trial| trial.row.status != ScoreStatus::Skipped;
        if !self.results.is_graded || !trials.iter().any(is_graded) {
            return Ok(Some("the baseline was not changed: these results have no scores".to_owned()));
        }
        if self.exit != Exit::Ok {
            return Ok(Some(
                "the baseline was not changed: only a regression is accepted with `--bless`".to_owned(),
            ));
        }
        let path = baseline.replace_with(&self.dir)?;
        observer.note(&format!("the baseline is now these results: {}", path.display()));
        Ok(None)
    }
}

impl ReportOptions {
    /// Refuses options that cannot be reported, before anything is paid for.
    pub fn check(
        &self,
        no_grade: bool,
        output: Option<&Path>,
        env: &ProcessEnv,
        observer: &dyn Observer,
    ) -> anyhow::Result<()> {
        let usage = |message: &str, hint: &str| Err(Failure::new(Exit::Usage, message).hint(hint).into());
        if let Some(to) = &self.agentv_run {
            agentv_run::check(to)?;
            if no_grade {
                return usage(
                    "`--agentv-run` needs scores",
                    "remove `--no-grade`: AgentV's rows need scores",
                );
            }
        }
        self.find_pull_request(env, observer)?;
        let Some(baseline) = self.find_baseline()? else { return Ok(()) };
        if let (Some(mut earlier), Some(target)) = (baseline.read()?, &self.baseline_target) {
            earlier.keep_targets(std::slice::from_ref(target))?;
        }
        let cwd = std::env::current_dir()?;
        if let (Baseline::Directory { path, .. }, Some(output)) = (&baseline, output)
            && let (Ok(baseline), Ok(output)) = (path.canonicalize(), cwd.join(output).canonicalize())
            && baseline == output
        {
            return usage(
                "`--output` is the baseline: it would be overwritten, and compared with itself",
                "choose another `--output`; `--bless` updates a baseline",
            );
        }
        Ok(())
    }

    fn find_baseline(&self) -> anyhow::Result<Option<Baseline>> {
        let cwd = std::env::current_dir()?;
        self.baseline.as_deref().map(|named| baseline::find(named, &cwd, self.bless)).transpose()
    }

    /// The pull request to comment on. A workflow for another event has none; elsewhere, it must be given.
    fn find_pull_request(
        &self,
        env: &ProcessEnv,
        observer: &dyn Observer,
    ) -> Result<Option<(String, u64)>, Failure> {
        if !self.pr_comment {
            return Ok(None);
        }
        let repo = self.repo.clone().or_else(|| env.get("GITHUB_REPOSITORY").map(ToOwned::to_owned));
        match (repo, self.pr.or_else(|| event_pull_request(env))) {
            (Some(repo), Some(number)) => Ok(Some((repo, number))),
            (Some(_), None) if actions::is_step() => {
                observer.note("the workflow does not run for a pull request: nothing to comment on");
                Ok(None)
            }
            _ => Err(Failure::new(Exit::Usage, "the pull request for `--pr-comment` is unknown")
                .hint("pass it: `--repo <owner>/<name> --pr <number>`")),
        }
    }
}

/// The HTML report of a results directory, written if it is missing or older than the results.
pub fn html_report(dir: &Path, env: &ProcessEnv, observer: &dyn Observer) -> anyhow::Result<PathBuf> {
    let path = dir.join("report.html");
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let results =
        ["scores.jsonl", "responses.jsonl"].iter().filter_map(|name| changed(&dir.join(name))).max();
    if changed(&path).is_some_and(|written| results.is_some_and(|results| written >= results)) {
        return Ok(path);
    }
    let options = ReportOptions {
        baseline: None,
        bless: false,
        targets: Vec::new(),
        baseline_target: None,
        fail_on: None,
        min_pass_rate: None,
        alpha: 0.05,
        html: Some(path.clone()),
        junit: None,
        markdown: None,
        json: None,
        agentv_run: None,
        pr_comment: false,
        repo: None,
        pr: None,
    };
    Report::read(dir, &options, env, observer)?.write_files(&options, false, observer)?;
    Ok(path)
}

/// The pull request of the event that started the workflow, or of a comment on one.
fn event_pull_request(env: &ProcessEnv) -> Option<u64> {
    let from_event = || {
        let event = std::fs::read(env.get("GITHUB_EVENT_PATH")?).ok()?;
        let event: serde_json::Value = serde_json::from_slice(&event).ok()?;
        let pull_request = event["pull_request"]["number"].as_u64();
        pull_request
            .or_else(|| event["issue"]["pull_request"].as_object().and(event["issue"]["number"].as_u64()))
    };
    let from_ref = || env.get("GITHUB_REF")?.strip_prefix("refs/pull/")?.split('/').next()?.parse().ok();
    from_event().or_else(from_ref)
}
