//! The plan of an evaluation, stored next to the exchange so that a second run with the same id resumes it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::backends::ServedModel;
use super::request::{EvaluationRequest, Pinned};
use super::workspace::Workspace;
use crate::model;
use crate::model::{BatchId, CommitSha, Digest, Entry};
use crate::util::{durable, sealed_json};

/// The longest id that leaves room for the models' suffixes.
const LONGEST_ID: usize = 51;

/// The folder of the plans in a state directory.
const FOLDER: &str = "evaluations";
/// The file with the entries.
const ENTRIES: &str = "entries.json";
/// The new name of an unreadable plan.
const DAMAGED: &str = "damaged.json";
/// The prefix of every results branch.
pub(super) const BRANCHES: &str = "eval-results/";

/// The request with the commits of an earlier run with the same id.
pub fn resumed(
    order: EvaluationRequest,
    workspace: &Workspace,
    id: Option<&BatchId>,
) -> Result<EvaluationRequest, model::Failure> {
    let Some(id) = id else { return Ok(order) };
    Ok(match recall(workspace, id)? {
        Some(earlier) => EvaluationRequest { pinned: earlier.pinned, ..order },
        None => order,
    })
}

/// The request of an earlier run with this id, with its commits; `None` if there was none.
///
/// An unreadable plan is set aside. It only guards against other requests with the same id, and so does the digest of each
/// batch: the responses in the exchange are still found and reused.
pub(super) fn recall(
    workspace: &Workspace,
    id: &BatchId,
) -> Result<Option<EvaluationRequest>, model::Failure> {
    let path = file(workspace, id, "json");
    let cannot =
        |error: std::io::Error| model::Failure::config(format!("cannot read `{}`: {error}", path.display()));
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(error)),
    };
    if let Some(order) = parse(&bytes) {
        return Ok(Some(order));
    }
    let aside = file(workspace, id, DAMAGED);
    durable::rename(&path, &aside).map_err(cannot)?;
    workspace.say(&format!(
        "`{}` is damaged and was moved to `{}`; answers of the evaluation `{id}` are still used",
        path.display(),
        aside.display()
    ));
    Ok(None)
}

/// An evaluation with stored data.
#[derive(Debug)]
pub struct KeptEvaluation {
    /// Its id.
    pub id: String,
    /// The request, with its commits.
    pub order: EvaluationRequest,
    /// Whether its entries are stored.
    pub has_entries: bool,
}

/// The evaluations in a state directory with readable plans.
pub fn kept(state: &Path) -> Vec<KeptEvaluation> {
    let folder = state.join(FOLDER);
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_suffix(".json").filter(|id| !id.contains('.')) else { continue };
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        if let Some(order) = parse(&bytes) {
            let has_entries = folder.join(format!("{id}.{ENTRIES}")).exists();
            kept.push(KeptEvaluation { id: id.to_owned(), order, has_entries });
        }
    }
    kept
}

/// `None` if it is damaged.
fn parse(bytes: &[u8]) -> Option<EvaluationRequest> {
    sealed_json::is_whole(bytes).then(|| serde_json::from_slice(bytes).ok()).flatten()
}

/// Whether an earlier run with this id has begun, even if its plan was damaged.
pub fn has_begun(workspace: &Workspace, id: &BatchId) -> bool {
    matches!(recall(workspace, id), Ok(Some(_))) || file(workspace, id, DAMAGED).exists()
}

/// Stores the plan of an evaluation, before its first call.
pub(super) fn remember(
    workspace: &Workspace,
    id: &BatchId,
    order: &EvaluationRequest,
    pinned: &Pinned,
) -> anyhow::Result<()> {
    let order = EvaluationRequest { pinned: Some(pinned.clone()), ..order.clone() };
    write(&file(workspace, id, "json"), &sealed_json::to_vec(&order)?)
}

/// Stores the entries, before they are published. Returns the file.
pub(super) fn keep_entries(
    workspace: &Workspace,
    id: &BatchId,
    entries: &[Entry],
) -> anyhow::Result<PathBuf> {
    let path = file(workspace, id, ENTRIES);
    write(&path, format!("{}\n", serde_json::to_string_pretty(entries)?).as_bytes())?;
    Ok(path)
}

/// Stores the branch name before the push, so that a later attempt finds what was pushed.
pub(super) fn remember_branch(workspace: &Workspace, id: &BatchId, branch: &str) -> anyhow::Result<()> {
    write(&file(workspace, id, "branch"), branch.as_bytes())
}

/// The branch that an earlier attempt pushed, or was about to push.
pub(super) fn recall_branch(workspace: &Workspace, id: &BatchId) -> Option<String> {
    let is_name = |name: &String| {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        name.strip_prefix(BRANCHES).is_some_and(|rest| !rest.is_empty() && rest.chars().all(legal))
    };
    std::fs::read_to_string(file(workspace, id, "branch")).ok().filter(is_name)
}

/// Whether a request equals that of an earlier run, so that it may resume it.
pub(super) fn is_same(asked: &EvaluationRequest, earlier: &EvaluationRequest) -> bool {
    let commit = |pinned: &Pinned| pinned.prompt_commit.clone();
    let fits = |commit: CommitSha| {
        asked.git_sha.as_ref().is_none_or(|digits| commit.as_str().starts_with(digits.as_str()))
    };
    asked.skill == earlier.skill
        && asked.replicates == earlier.replicates
        && earlier.pinned.as_ref().map(commit).is_none_or(fits)
}

/// The batch id of one model. Other settings, or another model behind an alias, give another id; a new server URL does not.
pub(super) fn batch_id(id: &BatchId, served: &ServedModel, params: &str) -> Result<BatchId, model::Failure> {
    let ServedModel { settings, alias_target, .. } = served;
    let alias = alias_target.as_deref().unwrap_or_default();
    let digest = Digest::of(format!("{}\n{alias}\n{params}", settings.id).as_bytes()).to_string();
    let too_long = || {
        model::Failure::new(
            model::Exit::Usage,
            format!("the id `{id}` has more than {LONGEST_ID} characters"),
        )
        .hint("each model's batch id is nine characters longer: choose a shorter `--batch-id`")
    };
    format!("{id}-{}", &digest[..8]).parse().map_err(|_| too_long())
}

fn file(workspace: &Workspace, id: &BatchId, ending: &str) -> PathBuf {
    workspace.state.join(FOLDER).join(format!("{id}.{ending}"))
}

/// Writes a file atomically and durably.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let cannot = || format!("cannot write `{}`", path.display());
    durable::create_dir_all(path.parent().with_context(cannot)?).with_context(cannot)?;
    durable::write(path, bytes).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::workspace::{CloneSource, Update};
    use super::*;
    use crate::config::Env;
    use crate::model::Replicates;
    use crate::util::durable::crash::Recording;

    const BRANCH: &str = "eval-results/rfp-extraction-0123456-20261117T120000Z";

    fn workspace(state: &Path) -> (Workspace, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        let workspace = Workspace {
            library: CloneSource { dir: PathBuf::from("library"), update: Update::Pull },
            datasets: None,
            targets: PathBuf::from("targets.yaml"),
            target_names: Vec::new(),
            env: Env::default(),
            state: state.to_path_buf(),
            github: None,
            max_concurrency: None,
            tell: Arc::new(move |text| heard.lock().unwrap().push(text.to_owned())),
        };
        (workspace, told)
    }

    fn id() -> BatchId {
        "b1".parse().unwrap()
    }

    fn order() -> (EvaluationRequest, Pinned) {
        let commit: CommitSha = "0123456789012345678901234567890123456789".parse().unwrap();
        let pinned =
            Pinned { prompt_commit: commit.clone(), dataset_commit: None, models_commit: commit.clone() };
        (EvaluationRequest::new("rfp-extraction".parse().unwrap(), Replicates::default(), None), pinned)
    }

    #[test]
    fn after_any_power_cut_the_plan_and_the_branch_are_complete_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Recording::start(dir.path());
        let (here, _) = workspace(&dir.path().join("state"));
        let (asked, pinned) = order();
        remember(&here, &id(), &asked, &pinned).unwrap();
        disk.mark("planned");
        keep_entries(&here, &id(), &[]).unwrap();
        remember_branch(&here, &id(), BRANCH).unwrap();
        disk.mark("named");
        // A resume writes the same plan again.
        remember(&here, &id(), &asked, &pinned).unwrap();
        let crashes = disk.crashes();
        assert!(crashes.len() > 15, "{}", crashes.len());
        for crash in crashes {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            let (there, told) = workspace(&at.path().join("state"));
            let recalled = recall(&there, &id()).unwrap();
            assert!(recalled.is_some() || !crash.after("planned"), "{crash:?}");
            assert!(recalled.is_none_or(|order| order.pinned.as_ref() == Some(&pinned)), "{crash:?}");
            let branch = recall_branch(&there, &id());
            assert!(branch.as_deref() == Some(BRANCH) || !crash.after("named"), "{crash:?}");
            assert_eq!(*told.lock().unwrap(), Vec::<String>::new(), "{crash:?}");
            remember(&there, &id(), &asked, &pinned).unwrap();
        }
    }

    #[test]
    fn a_damaged_plan_is_set_aside_and_does_not_stop_the_evaluation() {
        let flipped = |from: &str, to: &str| {
            let dir = tempfile::tempdir().unwrap();
            let (here, _) = workspace(dir.path());
            let (asked, pinned) = order();
            remember(&here, &id(), &asked, &pinned).unwrap();
            let text = std::fs::read_to_string(file(&here, &id(), "json")).unwrap();
            assert!(text.contains(from), "{text}");
            text.replace(from, to).into_bytes()
        };
        let (replicates, commit) =
            (flipped("\"replicates\": 10", "\"replicates\": 11"), flipped("0123456789", "0123456788"));
        for damage in [&b""[..], b"{\"skill\":", &[0; 40], &replicates[..], &commit[..]] {
            let dir = tempfile::tempdir().unwrap();
            let (here, told) = workspace(dir.path());
            let (asked, pinned) = order();
            remember(&here, &id(), &asked, &pinned).unwrap();
            std::fs::write(file(&here, &id(), "json"), damage).unwrap();
            assert_eq!(recall(&here, &id()).unwrap(), None);
            assert!(has_begun(&here, &id()), "its answers are still used");
            let told = told.lock().unwrap().join("\n").replace(&*dir.path().to_string_lossy(), "STATE");
            insta::allow_duplicates! {
                insta::assert_snapshot!(told, @"`STATE/evaluations/b1.json` is damaged and was moved to `STATE/evaluations/b1.damaged.json`; answers of the evaluation `b1` are still used");
            }
            remember(&here, &id(), &asked, &pinned).unwrap();
            assert!(recall(&here, &id()).unwrap().is_some());
        }
    }

    #[test]
    fn a_damaged_branch_name_counts_as_none() {
        let dir = tempfile::tempdir().unwrap();
        let (here, _) = workspace(dir.path());
        for damage in ["", "\0\0\0\0", "eval-results/", "main", "eval-results/a b"] {
            remember_branch(&here, &id(), damage).unwrap();
            assert_eq!(recall_branch(&here, &id()), None, "{damage:?}");
        }
    }
}
