//! Reads everything that the calls need, once; no call is made until all of it is valid.

use std::collections::BTreeMap;
use std::path::Path;

use super::clones::{OpenClone, commit_sha, open, origin_of};
use super::datasets::Datasets;
use super::export::export;
use super::failure::{CheckoutError, CheckoutProblem};
use super::messages;
use super::request::{EvaluationRequest, Pinned};
use super::workspace::Workspace;
use crate::config::{Layout, LibrarySettings, Models, ReadData, Skill, SkillError};
use crate::git::ObjectId;
use crate::leaderboard::Leaderboard;
use crate::model::{BatchId, CommitSha, Digest, Failure, SkillName, printable};
use crate::util::WorkDir;

/// The largest model list, and the largest leaderboard.
const LONGEST_FILE: u64 = 64 << 20;

type Result<T> = std::result::Result<T, CheckoutError>;

/// A skill at a commit, with the models to evaluate it with.
#[derive(Debug, Clone)]
pub struct Checkout {
    /// The request.
    pub order: EvaluationRequest,
    /// The commits that it resolved to.
    pub pinned: Pinned,
    /// The skill, with its cases.
    pub skill: Skill,
    /// The models of the default branch.
    pub models: Models,
    /// The name of the library's default branch.
    pub default_branch: String,
    /// Whether the commit is part of the default branch, so that its entries may go there.
    pub is_on_default: bool,
    /// The leaderboard of the default branch at that time.
    pub(super) leaderboard: Leaderboard,
    /// Whether the library publishes the models' answers.
    pub(super) publishes_details: bool,
    /// How many commits back each commit of the skill's entries is.
    pub(super) ranks: BTreeMap<CommitSha, u64>,
    /// The URL of the library.
    pub(super) origin: Option<String>,
}

impl Checkout {
    /// The commit of the library that is evaluated.
    pub fn prompt_commit(&self) -> &CommitSha {
        &self.pinned.prompt_commit
    }

    /// Reports a commit that is not on the default branch before its results are paid for: a warning, or an error if a pull request
    /// is requested.
    pub fn check_branch(&self, open_pr: bool) -> std::result::Result<Option<String>, Failure> {
        if self.is_on_default {
            return Ok(None);
        }
        let commit = self.prompt_commit().short();
        let message = format!("the commit {commit} is not part of `{}`", printable(&self.default_branch));
        if open_pr {
            return Err(Failure::config(format!("{message}: its entries do not belong there"))
                .hint("remove `--open-pr` to try it, or merge it first"));
        }
        Ok(Some(format!("{message}: its entries cannot be published")))
    }

    /// A new id, `<utc>-<8 hex>`. The same skill at the same commit may be evaluated several times in one second.
    pub fn new_id(&self) -> anyhow::Result<BatchId> {
        let what = format!("{} {} {}", self.skill.name, self.prompt_commit(), fastrand::u128(..));
        let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
        Ok(format!("{time}-{}", &Digest::of(what.as_bytes()).to_string()[..8]).parse()?)
    }
}

/// Updates the clones, resolves the commit, and reads the skill, its cases, the models and the
/// leaderboard.
pub async fn check_out(workspace: &Workspace, order: &EvaluationRequest) -> Result<Checkout> {
    let library_origin = origin_of(workspace, &workspace.library).await?;
    let datasets_origin = match &workspace.datasets {
        Some(datasets) if datasets.is_kept() => Some(origin_of(workspace, datasets).await?),
        _ => None,
    };
    let (workspace, order) = (workspace.clone(), order.clone());
    let work = tokio::task::spawn_blocking(move || {
        let origin = library_origin.url.clone();
        let mut library = open(&workspace.library, library_origin)?;
        let prompt = prompt_commit(&workspace, &order, &mut library)?;
        let models_commit = match &order.pinned {
            Some(pinned) => library.commit(&pinned.models_commit)?,
            None => library.default.clone(),
        };
        let datasets = workspace
            .datasets
            .as_ref()
            .map(|source| match datasets_origin {
                Some(origin) => open(source, origin),
                // The checkout itself has everything.
                None => open(source, super::clones::Origin::default()),
            })
            .transpose()?;
        let data = datasets.map(|clone| Datasets::at(&workspace, &order, clone)).transpose()?;
        let skill = read_skill(&workspace, &order, &library, &prompt, data.as_ref())?;
        let pinned = Pinned {
            prompt_commit: commit_sha(&prompt.to_string())?,
            dataset_commit: data.as_ref().map(|data| commit_sha(&data.commit.to_string())).transpose()?,
            models_commit: commit_sha(&models_commit.to_string())?,
        };
        let BoardFile { board: leaderboard, publishes_details, .. } =
            read_leaderboard(&library, &order.skill)?;
        Ok(Checkout {
            models: read_models(&library, &models_commit)?,
            ranks: ranks(&library, &prompt, &leaderboard, &order)?,
            leaderboard,
            // Answers repeat parts of the input, and data sets may be private.
            publishes_details: publishes_details.unwrap_or(!skill.reads_datasets()),
            is_on_default: library.is_on_default(&prompt)?,
            default_branch: library.branch.clone(),
            skill,
            pinned,
            order,
            origin,
        })
    });
    work.await.unwrap_or_else(|error| {
        Err(CheckoutError::of(CheckoutProblem::Pull, anyhow::anyhow!("the checkout was aborted: {error}")))
    })
}

/// Resolves the commit of the library.
fn prompt_commit(
    workspace: &Workspace,
    order: &EvaluationRequest,
    library: &mut OpenClone,
) -> Result<ObjectId> {
    if let Some(pinned) = &order.pinned {
        return library.commit(&pinned.prompt_commit);
    }
    if let Some(digits) = &order.git_sha {
        let sha = library.resolve(digits)?;
        return library.commit(&sha);
    }
    if workspace.library.is_kept() {
        library.pull()?;
    } else {
        // Only missing skill files matter; a workflow may create other files.
        library.must_be_clean(|path| path.starts_with(super::export::COMPONENTS))?;
    }
    Ok(library.head.clone())
}

fn read_skill(
    workspace: &Workspace,
    order: &EvaluationRequest,
    library: &OpenClone,
    commit: &ObjectId,
    datasets: Option<&Datasets>,
) -> Result<Skill> {
    let temporary = temporary(workspace)?;
    let folder = temporary.path().join("library");
    std::fs::create_dir(&folder).map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error.into()))?;
    export(library, commit, &order.skill, &folder)?;
    let read = datasets.map(|datasets| |path: &str, most: u64| datasets.read(path, most));
    let read = read.as_ref().map(|read| read as &ReadData<'_>);
    let skill = Skill::read_with(&folder, &order.skill, read).map_err(|error| {
        let is_unknown = matches!(error, SkillError::Unknown { .. });
        let problem = if is_unknown { CheckoutProblem::UnknownSkill } else { CheckoutProblem::Invalid };
        CheckoutError::of(problem, anyhow::Error::new(without(&error.into(), &folder)))
    })?;
    if let Some(datasets) = datasets {
        datasets.must_know_what_was_read()?;
    }
    for warning in &skill.warnings {
        workspace.say(warning);
    }
    if skill.cases.is_empty() {
        let failure = messages::nothing_to_run(&skill);
        return Err(CheckoutError::of(CheckoutProblem::NothingToRun, failure.into()));
    }
    Ok(skill)
}

/// A directory for the files of the skill, removed after reading; leftovers of killed processes are removed, too.
pub(super) fn temporary(workspace: &Workspace) -> Result<WorkDir> {
    let made = std::fs::create_dir_all(&workspace.state).and_then(|()| WorkDir::within(&workspace.state));
    made.map_err(|error| {
        let error =
            anyhow::Error::new(error).context(format!("cannot write to `{}`", workspace.state.display()));
        CheckoutError::of(CheckoutProblem::Pull, error)
    })
}

/// The message with paths as if the library itself had been read.
fn without(failure: &Failure, folder: &Path) -> Failure {
    let shown = format!("{}/", folder.display());
    let message = failure.to_string().replace(&shown, "");
    let told = Failure::new(failure.exit(), message);
    match failure.hint_text() {
        Some(hint) => told.hint(hint.replace(&shown, "")),
        None => told,
    }
}

fn read_models(library: &OpenClone, commit: &ObjectId) -> Result<Models> {
    let file = library.file(commit, Models::PATH, LONGEST_FILE);
    let bytes = file.map_err(|error| CheckoutError::of(CheckoutProblem::Invalid, error))?;
    let branch = &library.branch;
    let bytes = bytes.ok_or_else(|| {
        let message = format!("`{}` not found on `{branch}` of the library", Models::PATH);
        CheckoutError::new(CheckoutProblem::Invalid, message)
            .hint("create it to list the models: `models:`, then `- id: <name>` for each")
    })?;
    let text = String::from_utf8_lossy(&bytes);
    Models::read(&text, Path::new(Models::PATH)).map_err(|invalid| CheckoutError::invalid(invalid.into()))
}

/// How many commits back the skill's entries are.
fn ranks(
    library: &OpenClone,
    prompt: &ObjectId,
    leaderboard: &Leaderboard,
    order: &EvaluationRequest,
) -> Result<BTreeMap<CommitSha, u64>> {
    let mut known: Vec<&CommitSha> = leaderboard
        .entries()
        .iter()
        .filter(|entry| entry.skill == order.skill)
        .map(|entry| &entry.prompt_commit)
        .collect();
    known.dedup();
    if known.is_empty() {
        return Ok(BTreeMap::new());
    }
    let history = library.repository.ancestors_named(prompt, "");
    let history = history.map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))?;
    let places = history.iter().zip(0_u64..).filter_map(|(commit, back)| Some((commit.parse().ok()?, back)));
    Ok(places.filter(|(commit, _)| known.contains(&commit)).collect())
}

/// A leaderboard, and its file.
pub(super) struct BoardFile {
    pub(super) path: String,
    pub(super) board: Leaderboard,
    /// Whether the library publishes the models' answers, if set.
    pub(super) publishes_details: Option<bool>,
}

/// The leaderboard of the default branch with the skill's entries; empty if there is none.
pub(super) fn read_leaderboard(library: &OpenClone, skill: &SkillName) -> Result<BoardFile> {
    let file = |path: &str| {
        let file = library.file(&library.default, path, LONGEST_FILE);
        file.map_err(|error| CheckoutError::of(CheckoutProblem::Invalid, error))
    };
    let parse =
        |path: &str, bytes: &[u8]| Leaderboard::parse(bytes, Path::new(path)).map_err(CheckoutError::invalid);
    let settings = match file(LibrarySettings::PATH)? {
        None => LibrarySettings::default(),
        Some(bytes) => {
            LibrarySettings::read(bytes).map_err(|invalid| CheckoutError::invalid(invalid.into()))?
        }
    };
    let publishes_details = settings.case_details;
    let whole = file(Leaderboard::PATH)?.map(|bytes| parse(Leaderboard::PATH, &bytes)).transpose()?;
    let layout = match (settings.leaderboard, &whole) {
        (Some(layout), _) => layout,
        (None, Some(_)) => Layout::Single,
        (None, None) => Layout::Split,
    };
    if layout == Layout::Single {
        let board = whole.unwrap_or_else(Leaderboard::empty);
        return Ok(BoardFile { path: Leaderboard::PATH.to_owned(), board, publishes_details });
    }
    let path = Leaderboard::path_of(skill);
    let board = match (file(&path)?, whole) {
        (Some(bytes), _) => parse(&path, &bytes)?,
        // The first result since the library has a file for each skill.
        (None, Some(whole)) => whole.of_skill(skill),
        (None, None) => Leaderboard::empty(),
    };
    Ok(BoardFile { path, board, publishes_details })
}
