//! Checks every target of a file as far as possible; no finding hides another.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Costs, examine, ping_costs, shutdown};
use crate::config::{Env, Inspection, RunBy};
use crate::engine::{Observer, inputs, notes};
use crate::github::{Access, ApiError, Client};
use crate::model::{Exit, Failure, Finding, Level, RemoteTarget, Target, printable};
use crate::providers;
use crate::setup::ping::{PING_BYTES, PING_TOKENS, Ping};
use crate::setup::target_report::{Report, TargetReport};
use crate::util::figures;

/// What to check, and how.
#[derive(Debug)]
pub struct DoctorOptions<'a> {
    /// `None` for the nearest one.
    pub targets_file: Option<&'a Path>,
    /// Empty for all.
    pub targets: &'a [String],
    pub offline: bool,
    /// Whether to send a request to each target.
    pub ping: bool,
    pub github: Access,
    /// Finds the parts of a target's `command` that this program does not understand.
    pub misunderstood: fn(&[String]) -> Option<Finding>,
}

/// Checks the targets.
pub async fn check_targets(
    options: &DoctorOptions<'_>,
    cwd: &Path,
    observer: Arc<dyn Observer>,
) -> anyhow::Result<Report> {
    let named = options.targets_file.map(|path| cwd.join(path));
    let near = named.as_deref().and_then(Path::parent).unwrap_or(cwd);
    let mut env = inputs::environment(near, cwd)?;
    let file = inputs::targets_file(options.targets_file, near, cwd, &*observer)?;
    env.mark_secret(file.secret_names());
    let names: Vec<&str> = if options.targets.is_empty() {
        file.names().collect()
    } else {
        options.targets.iter().map(String::as_str).collect()
    };
    // All names first: a wrong one is reported before any network access.
    let inspected: Result<Vec<Inspection>, Failure> =
        names.into_iter().map(|name| file.inspect(name, &env)).collect();
    let mut github =
        Github { options, env: &env, observer: &observer, client: None, answers: HashMap::new() };
    let mut targets = Vec::new();
    for mut inspection in inspected? {
        if let RunBy::Us(Target::Remote(target)) = &inspection.run_by {
            let asked = github.ask(target).await?;
            inspection.findings.splice(0..0, asked);
        }
        if let RunBy::Us(Target::Runner(target)) = &inspection.run_by
            && !options.offline
        {
            inspection.findings.extend(shutdown(target).await);
            inspection.findings.extend(providers::check_identity(target).await);
        }
        if options.ping {
            inspection.findings.extend(github.ping(&inspection, file.path()).await?);
        }
        inspection.agentv.extend(inspection.call.as_deref().and_then(options.misunderstood));
        if inspection.call.is_some() && inspection.agentv.is_empty() {
            inspection.agentv.push(Finding::ok("`agentv eval` can run its `command`"));
        }
        targets.push(TargetReport::new(inspection));
    }
    Ok(Report { file: file.shown_as().display().to_string(), targets })
}

/// GitHub, queried once per target.
struct Github<'a> {
    options: &'a DoctorOptions<'a>,
    env: &'a Env,
    observer: &'a Arc<dyn Observer>,
    /// Created when needed: without a runner repository no token is required.
    client: Option<Result<Client, Finding>>,
    answers: HashMap<String, Vec<Finding>>,
}

impl Github<'_> {
    async fn ask(&mut self, target: &RemoteTarget) -> anyhow::Result<Vec<Finding>> {
        if self.options.offline {
            return Ok(vec![Finding::new(Level::Note, "GitHub was not checked (`--offline`)")]);
        }
        // Links to one target share its result.
        if let Some(known) = self.answers.get(&target.name) {
            return Ok(known.clone());
        }
        if self.client.is_none() {
            self.client = Some(self.connect()?);
        }
        let findings = match &self.client {
            Some(Ok(client)) => examine(client, target).await,
            Some(Err(finding)) => vec![finding.clone()],
            None => Vec::new(),
        };
        self.answers.insert(target.name.clone(), findings.clone());
        Ok(findings)
    }

    /// Sends one request, after printing its maximum cost; skips a target with errors.
    async fn ping(&mut self, inspection: &Inspection, file: PathBuf) -> anyhow::Result<Option<Finding>> {
        let is_broken = inspection.findings.iter().any(|finding| finding.level == Level::Error);
        let RunBy::Us(target) = &inspection.run_by else { return Ok(None) };
        if is_broken {
            return Ok(Some(Finding::new(Level::Note, "not pinged because of the errors above")));
        }
        let costs = match (target, &self.client) {
            (Target::Runner(target), _) => Costs::of(target, PING_BYTES, PING_TOKENS),
            (Target::Remote(target), Some(Ok(client))) => {
                ping_costs(client, target, PING_BYTES, PING_TOKENS).await.map_err(ApiError::into_failure)?
            }
            (Target::Remote(_), _) => return Ok(None),
        };
        let most = costs.at_most_usd.map_or("an unknown amount (no `price`)".to_owned(), figures::dollars);
        let model = costs.model.map(|model| format!(" to `{}`", printable(&model))).unwrap_or_default();
        self.observer.note(&format!(
            "ping {}: one request{model}, at most {PING_TOKENS} output tokens; costs at most {most}",
            printable(&inspection.name)
        ));
        let ping = Ping {
            targets_file: Some(file),
            target: inspection.name.clone(),
            github: self.options.github.clone(),
        };
        Box::pin(ping.send(Arc::clone(self.observer))).await.map(Some)
    }

    /// A missing token is a finding about every target that needs one, but a usage error is not.
    fn connect(&self) -> anyhow::Result<Result<Client, Finding>> {
        let notify = Arc::new(notes(self.observer));
        match self.options.github.runner_client(self.env.process(), notify) {
            Ok(client) => Ok(Ok(client)),
            Err(error) => match error.downcast_ref::<Failure>() {
                Some(failure) if failure.exit() == Exit::Config => {
                    Ok(Err(Finding::failure(Level::Error, failure)))
                }
                _ => Err(error),
            },
        }
    }
}
