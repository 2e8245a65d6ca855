//! What several commands read before they start: environment, targets, limits.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::actions;
use super::args::LimitArgs;
use super::display::Display;
use crate::config::{Env, Roots, TargetsFile, shown};
use crate::exchange::LocalExchange;
use crate::model::{Failure, RunnerTarget, Target};

/// Where GitHub's tokens stand: as secret as any key of a target.
const TOKENS: [&str; 6] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "INPUT_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
];

/// The environment of the process, as a step of a workflow has it: there are no other files.
pub(super) fn process_environment() -> Env {
    let mut env = Env::from_process();
    env.mark_secret(TOKENS.map(ToOwned::to_owned));
    env
}

/// The environment of the process, and the `.env` files from `near` up to the git root and in `cwd`.
pub(super) fn environment(near: &Path, cwd: &Path) -> anyhow::Result<Env> {
    environment_but(near, cwd, |_| false)
}

/// The same without the `.env` files of directories that others write to.
pub(super) fn environment_but(
    near: &Path,
    cwd: &Path,
    is_foreign: impl Fn(&Path) -> bool,
) -> anyhow::Result<Env> {
    let mut env = process_environment();
    for dir in Roots::new(near, cwd).iter().filter(|dir| !is_foreign(dir)) {
        env.add_dotenv(dir).map_err(|error| {
            Failure::config(format!("cannot read `{}`: {error}", shown(&dir.join(".env"), cwd).display()))
        })?;
    }
    actions::mask(&env.likely_secrets());
    Ok(env)
}

/// The targets file that was named, or the nearest one.
pub(super) fn targets_file(
    named: Option<&Path>,
    near: &Path,
    cwd: &Path,
    display: &Display,
) -> anyhow::Result<TargetsFile> {
    let roots = Roots::new(near, cwd);
    let found = named.map(Path::to_path_buf).or_else(|| TargetsFile::discover(&roots));
    let path = found.ok_or_else(|| {
        let message = "no targets file: neither `targets.yaml` nor `.agentv/targets.yaml`";
        Failure::config(format!("{message} in {}", roots.listed(cwd)))
            .hint("add one, or name another with `--targets FILE`")
    })?;
    let (targets, warnings) = TargetsFile::load(&path, &shown(&path, cwd))?;
    for warning in &warnings {
        display.warning(warning);
    }
    Ok(targets)
}

/// A target that can be called from here.
pub(super) fn runner_target(targets: &TargetsFile, name: &str, env: &Env) -> anyhow::Result<RunnerTarget> {
    match targets.resolve(name, env)? {
        Target::Runner(target) => Ok(*target),
        Target::Remote(target) => {
            let message = format!("target `{}` is a runner repository on GitHub, not a model", target.name);
            Err(Failure::config(message)
                .hint("choose a target with a model behind it with `--target`")
                .into())
        }
    }
}

/// The local exchange, made if need be. What lies beside the default one is not for the user's own repository.
pub(super) fn exchange(path: &Path) -> anyhow::Result<LocalExchange> {
    let exchange = LocalExchange::open_or_create(path)?;
    if path.ends_with(LocalExchange::DEFAULT_PATH) {
        let ignore = path.with_file_name(".gitignore");
        if !ignore.exists() {
            std::fs::write(&ignore, "*\n").with_context(|| format!("cannot write `{}`", ignore.display()))?;
        }
    }
    Ok(exchange)
}

/// The exchange of a command that AgentV starts, in whatever directory: where a command in the home of the targets file
/// would have it.
pub(super) fn exchange_of(targets: &TargetsFile) -> PathBuf {
    targets.home().join(LocalExchange::DEFAULT_PATH)
}

/// What the command line says over the target.
pub(super) fn apply_limits(target: &mut RunnerTarget, limits: &LimitArgs) {
    if let Some(most) = limits.max_concurrency {
        target.limits.max_concurrency = most;
    }
    target.dedupe |= limits.dedupe;
    target.keep_raw |= limits.keep_raw;
}
