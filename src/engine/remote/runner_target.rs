//! Identifies the target of a runner repository, as far as known: from its default branch, as the runner does.

use std::path::Path;

use super::{Dispatcher, RunnerRepo};
use crate::config::{Env, TargetsFile};
use crate::engine::target_identity::runner_identity;
use crate::git;
use crate::model::{Digest, RemoteTarget, Target};

impl Dispatcher {
    /// The digest of the runner's own target; `None` if it cannot be read.
    pub(in crate::engine) async fn runner_target_digest(
        &self,
        runner: &RunnerRepo,
        target: &RemoteTarget,
    ) -> Option<Digest> {
        let remote = self.remote(&target.repo, &runner.info.clone_url).await.ok()?;
        let files = tokio::task::spawn_blocking(move || git::fetch_files(&remote, &TargetsFile::PLACES));
        match files.await.ok()? {
            Ok(files) => {
                let file = files.into_iter().flatten().next()?;
                Some(digest(file, target.target.as_deref().unwrap_or("default")))
            }
            Err(error) => {
                tracing::debug!("cannot read the targets of `{}`: {error:#}", target.repo);
                None
            }
        }
    }
}

/// The digest of a target, or of the whole file if only the runner can resolve it.
fn digest(file: Vec<u8>, name: &str) -> Digest {
    let whole = Digest::of(&file);
    let targets = TargetsFile::parse(file, Path::new("targets.yaml"), Path::new(""));
    let target = targets.ok().and_then(|(targets, _)| targets.resolve_without_keys(name, &Env::default()));
    match target {
        Some(Target::Runner(target)) => runner_identity(&target),
        Some(Target::Remote(_)) | None => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str) -> Digest {
        digest(file.as_bytes().to_vec(), "gpt")
    }

    #[test]
    fn only_what_a_target_is_counts() {
        let file =
            "targets:\n  - { name: gpt, provider: openai, model: m, api_key: '${{ OPENAI_API_KEY }}' }\n";
        let same = of(file);
        assert_eq!(of(&file.replace("model: m", "model: m, max_concurrency: 3")), same);
        assert_eq!(of(&format!("{file}  - {{ name: other, provider: mock }}\n")), same);
        assert_ne!(of(&file.replace("model: m", "model: n")), same);
        assert_ne!(of(&file.replace("model: m", "model: m, temperature: 1")), same);
        let unknown = file.replace("model: m", "model: '${{ MODEL }}'");
        assert_eq!(of(&unknown), Digest::of(unknown.as_bytes()));
    }
}
