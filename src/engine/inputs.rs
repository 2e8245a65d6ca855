//! Inputs that several commands read before they start: environment, targets, exchange.

use std::path::{Path, PathBuf};

use super::Observer;
use crate::config::{Env, Roots, TargetsFile, shown};
use crate::console::actions;
use crate::exchange::LocalExchange;
use crate::model::{Failure, RemoteTarget, RunnerTarget, Target};
use crate::util::process_env::ProcessEnv;
use crate::util::{ca, own_dir, regular_file};

/// The variable with private CA certificates, in PEM format.
const PRIVATE_CA: &str = "RUN_EVALS_CA";

/// The environment of the process, and the `.env` files from `near` up to the git root and in `cwd`.
pub fn environment(near: &Path, cwd: &Path) -> anyhow::Result<Env> {
    environment_but(near, cwd, |_| false)
}

/// The same without the `.env` files of directories that others can write to.
pub fn environment_but(near: &Path, cwd: &Path, is_foreign: impl Fn(&Path) -> bool) -> anyhow::Result<Env> {
    let mut env = Env::from_process();
    for dir in Roots::new(near, cwd).iter().filter(|dir| !is_foreign(dir)) {
        env.add_dotenv(dir).map_err(|error| {
            Failure::config(format!("cannot read `{}`: {error}", shown(&dir.join(".env"), cwd).display()))
        })?;
    }
    actions::mask(&env.likely_secrets());
    Ok(env)
}

/// The given targets file, or the nearest one.
pub fn targets_file(
    named: Option<&Path>,
    near: &Path,
    cwd: &Path,
    observer: &dyn Observer,
) -> anyhow::Result<TargetsFile> {
    let roots = Roots::new(near, cwd);
    let found = named.map(Path::to_path_buf).or_else(|| TargetsFile::discover(&roots));
    let path = found.ok_or_else(|| {
        let message = "no targets file: neither `targets.yaml` nor `.agentv/targets.yaml`";
        Failure::config(format!("{message} in {}", roots.listed(cwd)))
            .hint("`run-evals init` writes one, and `--targets FILE` sets another")
    })?;
    let (targets, warnings) = TargetsFile::load(&path, &shown(&path, cwd))?;
    observer.warnings(&warnings);
    Ok(targets)
}

/// A target that can be called from here.
pub fn runner_target(targets: &TargetsFile, name: &str, env: &Env) -> anyhow::Result<RunnerTarget> {
    match targets.resolve(name, env)? {
        Target::Runner(target) => Ok(*target),
        Target::Remote(target) => {
            let message = format!("target `{}` is a runner repository on GitHub, not a model", target.name);
            Err(Failure::config(message).hint("choose a target with a model: `--target NAME`").into())
        }
    }
}

/// Resolves a target that must be a runner repository.
pub fn remote_target(targets: &TargetsFile, name: &str, env: &Env) -> anyhow::Result<RemoteTarget> {
    match targets.resolve(name, env)? {
        Target::Remote(target) => Ok(*target),
        Target::Runner(target) => {
            let message = format!("target `{}` is a model, not a runner repository", target.name);
            Err(Failure::config(message).hint("choose a target with `provider: github-actions`").into())
        }
    }
}

/// The local exchange, created if necessary. The default one is hidden from the user's own repository.
pub fn exchange(path: &Path) -> anyhow::Result<LocalExchange> {
    let exchange = LocalExchange::open_or_create(path)?;
    if path.ends_with(LocalExchange::DEFAULT_PATH)
        && let Some(dir) = path.parent()
    {
        own_dir::ignore_by_git(dir)?;
    }
    Ok(exchange)
}

/// The exchange of a command that AgentV starts in any directory: the one that a command in the targets file's directory would
/// use.
pub fn exchange_of(targets: &TargetsFile) -> PathBuf {
    targets.home().join(LocalExchange::DEFAULT_PATH)
}

/// The private CA certificates of the step or the command line, checked.
pub fn private_ca(file: Option<&Path>, env: &ProcessEnv) -> Result<Option<Vec<u8>>, Failure> {
    let (pem, place) = match file {
        Some(path) => {
            let place = format!("the CA file `{}`", path.display());
            let pem = regular_file::read(path, ca::MOST_BYTES).map_err(|error| {
                Failure::config(format!("cannot read {place}: {error}")).hint(format!(
                    "in a step without a checkout, put the certificates into the variable `{PRIVATE_CA}`"
                ))
            })?;
            (pem, place)
        }
        None => match env.get(PRIVATE_CA).filter(|pem| !pem.trim().is_empty()) {
            Some(pem) => (pem.as_bytes().to_vec(), format!("the variable `{PRIVATE_CA}`")),
            None => return Ok(None),
        },
    };
    ca::check(&pem).map_err(|problem| {
        Failure::config(format!("{place} {problem}"))
            .hint("certificates in PEM format begin with `-----BEGIN CERTIFICATE-----`")
    })?;
    Ok(Some(pem))
}
