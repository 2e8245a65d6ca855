//! Targets and policy from the runner repository's default branch, whatever branch the workflow runs from.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::{Host, blocking};
use crate::config::{Env, Policy, TargetsFile};
use crate::git;
use crate::model::{Failure, MockReply, Provider, RunnerTarget, Target, printable};

/// The targets and the policy of a runner repository.
#[derive(Debug)]
pub struct RunnerConfig {
    pub targets: TargetsFile,
    pub policy: Policy,
    pub has_policy: bool,
    /// Rendered warnings about its files.
    pub warnings: Vec<String>,
    repo: String,
}

impl RunnerConfig {
    /// Fetches the files of the default branch.
    pub async fn fetch(host: &Host) -> anyhow::Result<Self> {
        let remote = host.own_remote();
        let paths: Vec<&str> = TargetsFile::PLACES.into_iter().chain(Policy::PLACES).collect();
        let mut files = blocking(move || git::fetch_files(&remote, &paths)).await?;
        let policies = files.split_off(TargetsFile::PLACES.len());
        let place =
            TargetsFile::PLACES.into_iter().zip(&files).find_map(|(path, file)| file.as_ref().map(|_| path));
        let mut config = Self::read(&host.repo, files, policies)?;
        let folder = place.and_then(|place| Path::new(place).parent()).unwrap_or(Path::new(""));
        let named: BTreeMap<String, String> = config
            .targets
            .ca_files()
            .filter_map(|name| Some((name.to_owned(), inside(folder, name)?)))
            .collect();
        let mut certificates = BTreeMap::new();
        if !named.is_empty() {
            let (remote, paths) = (host.own_remote(), named.values().cloned().collect::<Vec<_>>());
            let files = blocking(move || {
                git::fetch_files(&remote, &paths.iter().map(String::as_str).collect::<Vec<_>>())
            });
            let found = named.into_keys().zip(files.await?);
            certificates.extend(found.filter_map(|(name, file)| Some((name, file?))));
        }
        // Nothing is read from the disk of a runner, which may have the files of a batch.
        config.targets = config.targets.with_files(certificates);
        Ok(config)
    }

    fn read(
        repo: &str,
        targets: Vec<Option<Vec<u8>>>,
        policies: Vec<Option<Vec<u8>>>,
    ) -> anyhow::Result<Self> {
        let policy = read_policy(repo, policies)?;
        let found = TargetsFile::PLACES.into_iter().zip(targets).find_map(|(path, file)| Some((path, file?)));
        let Some((path, bytes)) = found else {
            let message = format!("`targets.yaml` not found on the default branch of `{repo}`");
            let hint = "add one with the models that batches may use; keys in it are references such as `${{ OPENAI_API_KEY }}`";
            return Err(Failure::config(message).hint(hint).into());
        };
        let (targets, warnings) = TargetsFile::parse(bytes, &shown(repo, path), Path::new(""))?;
        let has_policy = policy.is_some();
        let policy = policy.unwrap_or_default();
        Ok(Self { targets, policy, has_policy, warnings, repo: repo.to_owned() })
    }

    /// Rejects a workflow run that an unauthorized user started or re-ran.
    pub(super) fn check_senders(&self, host: &Host) -> Result<(), Failure> {
        if host.senders.is_empty() {
            self.policy.check_sender("")?;
        }
        host.senders.iter().try_for_each(|sender| self.policy.check_sender(sender))
    }

    /// The target of the batch.
    pub(super) fn target(&self, name: &str, env: &Env) -> anyhow::Result<RunnerTarget> {
        if !self.targets.names().any(|known| known == name) {
            let message =
                format!("`{}` has no target `{}` in its `targets.yaml`", self.repo, printable(name));
            let names: Vec<String> = self.targets.names().map(|name| format!("`{name}`")).collect();
            let hint =
                format!("set `target` of the dispatcher's target to one of these: {}", names.join(", "));
            return Err(Failure::config(message).hint(hint).into());
        }
        let target = match self.targets.resolve(name, env)? {
            Target::Runner(target) => *target,
            Target::Remote(target) => {
                let message = format!("target `{}` is a runner repository itself", target.name);
                let hint =
                    format!("set `target` of the dispatcher's target to one of `{}` with a model", self.repo);
                return Err(Failure::config(message).hint(hint).into());
            }
        };
        if let Provider::Mock(mock) = &target.provider
            && let MockReply::Script(path) = &mock.reply
        {
            let message =
                format!("target `{}` reads the file `{}`", target.name, printable(&path.to_string_lossy()));
            let hint = "a runner on GitHub has no checkout; use `mode: echo`, `response` or `template`";
            return Err(Failure::config(message).hint(hint).into());
        }
        Ok(target)
    }
}

/// A path in the repository, if it does not lead out of it.
fn inside(folder: &Path, name: &str) -> Option<String> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let is_inside = Path::new(name).components().all(is_plain) && !name.contains([':', '*', '?', '[', '\\']);
    let parts = Path::new(name).components().filter(|part| matches!(part, Component::Normal(_)));
    let path = folder.join(parts.collect::<PathBuf>());
    path.to_str().filter(|path| is_inside && !path.is_empty()).map(ToOwned::to_owned)
}

/// The policy on a repository's default branch, if it has one.
pub async fn fetch_policy(repo: &str, remote: git::Remote) -> anyhow::Result<Option<Policy>> {
    let files = blocking(move || git::fetch_files(&remote, &Policy::PLACES)).await?;
    read_policy(repo, files)
}

fn read_policy(repo: &str, files: Vec<Option<Vec<u8>>>) -> anyhow::Result<Option<Policy>> {
    let mut found = Policy::PLACES.into_iter().zip(files).filter_map(|(path, file)| Some((path, file?)));
    match (found.next(), found.next()) {
        (Some((path, bytes)), None) => Ok(Some(Policy::parse(&shown(repo, path), bytes)?)),
        (None, _) => Ok(None),
        (Some((one, _)), Some((other, _))) => {
            let message = format!("`{repo}` has both `{one}` and `{other}` on its default branch");
            Err(Failure::config(message).hint("keep one of them").into())
        }
    }
}

fn shown(repo: &str, path: &str) -> PathBuf {
    PathBuf::from(format!("{repo}: {path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(targets: &str) -> RunnerConfig {
        let files = vec![None, None, Some(targets.as_bytes().to_vec()), None];
        RunnerConfig::read("o/r", files, vec![None, None]).unwrap()
    }

    #[test]
    fn the_first_file_wins_and_problems_name_the_repository() {
        let config = home("targets:\n  - name: m\n    provider: mock\n");
        assert_eq!(config.target("m", &Env::from([])).unwrap().name, "m");
        let files = vec![None, Some(b"targets: 7\n".to_vec()), None, None];
        let error = RunnerConfig::read("o/r", files, vec![None, None]).unwrap_err().to_string();
        assert!(error.contains("--> o/r: targets.yml:1:10"), "{error}");
        let error = RunnerConfig::read("o/r", vec![None; 4], vec![None, None]).unwrap_err();
        insta::assert_snapshot!(error, @"`targets.yaml` not found on the default branch of `o/r`");
    }

    #[test]
    fn a_policy_can_have_either_name_but_not_both() {
        let targets =
            || vec![Some(b"targets:\n  - name: m\n    provider: mock\n".to_vec()), None, None, None];
        let policy = |text: &str| Some(text.as_bytes().to_vec());
        let config =
            RunnerConfig::read("o/r", targets(), vec![None, policy("allowed_senders: [me]\n")]).unwrap();
        assert!(config.has_policy && config.policy.check_sender("you").is_err());
        assert!(!RunnerConfig::read("o/r", targets(), vec![None, None]).unwrap().has_policy);
        let both = vec![policy("allowed_senders: [me]\n"), policy("{}")];
        let error = RunnerConfig::read("o/r", targets(), both).unwrap_err();
        insta::assert_snapshot!(error, @"`o/r` has both `.run-evals.yml` and `.run-evals.yaml` on its default branch");
    }

    #[test]
    fn targets_that_make_no_sense_on_a_runner_are_rejected() {
        let config = home(
            "targets:\n  - name: s\n    provider: mock\n    script: replies.jsonl\n  - name: r\n    provider: github-actions\n    repo: o/other\n    workflow: w.yml\n",
        );
        let problem = |name: &str| config.target(name, &Env::from([])).unwrap_err().to_string();
        insta::assert_snapshot!(problem("s"), @"target `s` reads the file `replies.jsonl`");
        insta::assert_snapshot!(problem("r"), @"target `r` is a runner repository itself");
    }
}
