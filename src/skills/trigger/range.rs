//! The commits to check, and the prompts that they changed, from GitHub's API without a clone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::github::{ApiError, ChangedFile, Client, Commit, CommitQuery, MOST_COMPARED_FILES};
use crate::model::{CommitSha, Failure, SkillName, printable};

/// 1,000 commits of a time window.
const MOST_PAGES: usize = 10;
const FOLDER: &str = "components";
const FILE: &str = "prompt.md";

/// A range of commits.
#[derive(Debug, Clone)]
pub struct Range {
    /// The last commit before it; `None` if it includes the first commit.
    pub base: Option<String>,
    /// Its last commit.
    pub head: String,
    /// All its commits, unless there are too many.
    pub(super) inside: Option<BTreeSet<String>>,
    /// The components whose `prompt.md` changed, and whether it existed before. Deleted ones are not
    /// included.
    pub(super) changed: BTreeMap<SkillName, PriorState>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Whether a prompt existed before the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PriorState {
    There,
    Nowhere,
}

/// The path of a component's prompt.
pub(super) fn prompt_path(skill: &SkillName) -> String {
    format!("{FOLDER}/{skill}/{FILE}")
}

/// The commits of a push. Without `before`, or if GitHub no longer has it, only the last commit.
pub async fn pushed(
    client: &Client,
    repo: &str,
    before: Option<&CommitSha>,
    after: &CommitSha,
) -> Result<Range, ApiError> {
    let Some(before) = before else { return last_commit(client, repo, after.as_str()).await };
    if let Some(range) = between(client, repo, before.as_str(), after.as_str()).await? {
        return Ok(range);
    }
    let mut range = last_commit(client, repo, after.as_str()).await?;
    range.warnings.push(format!(
        "GitHub cannot compare `{}` with `{}`: only the last commit was checked",
        before.short(),
        after.short()
    ));
    Ok(range)
}

/// The commits that a branch received since a time; `None` if there are none. Follows first parents back to the first commit since
/// then: a merged branch came in with all its commits, and everything above a recent commit came after it, whatever
/// its date.
pub async fn recent(
    client: &Client,
    repo: &str,
    branch: &str,
    since: Timestamp,
) -> Result<Option<Range>, ApiError> {
    let query = CommitQuery { from: branch, path: None, since: Some(since), pages: MOST_PAGES };
    let commits = client.commits(repo, query).await?;
    let Some(head) = commits.first() else { return Ok(None) };
    let known: BTreeMap<&str, &Commit> = commits.iter().map(|commit| (commit.sha.as_str(), commit)).collect();
    let (mut next, mut found) = (Some(head.sha.as_str()), None);
    while let Some(commit) = next.and_then(|sha| known.get(sha)) {
        next = commit.parents.first().map(|parent| parent.sha.as_str());
        if !commit.is_older(since) {
            found = Some(next);
        }
    }
    let Some(base) = found else { return Ok(None) };
    let head = head.sha.as_str();
    let mut range = match base {
        None => whole(client, repo, head).await?,
        Some(base) => match between(client, repo, base, head).await? {
            Some(range) => range,
            None => last_commit(client, repo, head).await?,
        },
    };
    if commits.len() >= MOST_PAGES * 100 && commits.last().is_some_and(|last| !last.is_older(since)) {
        range.warnings.push(format!("there are more commits: checked the last {}", commits.len()));
    }
    Ok(Some(range))
}

/// The commits since the merge base. After a force push that is not `before`: commits that the push removed do not count.
async fn between(client: &Client, repo: &str, before: &str, after: &str) -> Result<Option<Range>, ApiError> {
    let Some(compared) = client.compare(repo, before, after).await? else { return Ok(None) };
    let is_whole = compared.commits.len() >= compared.total_commits;
    let inside = is_whole.then(|| compared.commits.into_iter().map(|commit| commit.sha).collect());
    let base = compared.merge_base;
    let mut range = Range {
        base: Some(base.clone()),
        head: after.to_owned(),
        inside,
        changed: BTreeMap::new(),
        warnings: Vec::new(),
    };
    if base != before {
        range.warnings.push(format!(
            "the history was rewritten: checked the commits since the merge base `{}`",
            shortened(&base)
        ));
    }
    if compared.files.len() < MOST_COMPARED_FILES {
        range.add_files(&compared.files);
    } else {
        range.add_trees(client, repo).await?;
    }
    Ok(Some(range))
}

/// A commit and its changes against its first parent.
async fn last_commit(client: &Client, repo: &str, sha: &str) -> Result<Range, ApiError> {
    let (commit, files) = client.commit(repo, sha).await?;
    let mut range = Range {
        base: commit.parents.first().map(|parent| parent.sha.clone()),
        head: commit.sha.clone(),
        inside: Some(BTreeSet::from([commit.sha])),
        changed: BTreeMap::new(),
        warnings: Vec::new(),
    };
    if files.len() < MOST_COMPARED_FILES {
        range.add_files(&files);
    } else {
        range.add_trees(client, repo).await?;
    }
    Ok(range)
}

/// The whole history up to a commit.
async fn whole(client: &Client, repo: &str, head: &str) -> Result<Range, ApiError> {
    let mut range = Range {
        base: None,
        head: head.to_owned(),
        inside: None,
        changed: BTreeMap::new(),
        warnings: Vec::new(),
    };
    range.add_trees(client, repo).await?;
    Ok(range)
}

impl Range {
    fn add_files(&mut self, files: &[ChangedFile]) {
        for file in files.iter().filter(|file| file.status != "removed") {
            let was = match file.status.as_str() {
                "added" | "renamed" | "copied" => PriorState::Nowhere,
                _ => PriorState::There,
            };
            if let Some(folder) = prompt_folder(&file.filename) {
                self.add(folder, was);
            }
        }
    }

    /// If there are more files than GitHub compares: compares all prompts of both ends by digest.
    async fn add_trees(&mut self, client: &Client, repo: &str) -> Result<(), ApiError> {
        let before = match &self.base {
            Some(base) => prompts(client, repo, base).await?,
            None => BTreeMap::new(),
        };
        for (folder, digest) in prompts(client, repo, &self.head).await? {
            match before.get(&folder) {
                Some(earlier) if *earlier == digest => {}
                Some(_) => self.add(&folder, PriorState::There),
                None => self.add(&folder, PriorState::Nowhere),
            }
        }
        Ok(())
    }

    fn add(&mut self, folder: &str, was: PriorState) {
        match folder.parse() {
            Ok(skill) => {
                self.changed.insert(skill, was);
            }
            Err(error) => {
                self.warnings.push(format!("`{FOLDER}/{}` was left out: {error}", printable(folder)));
            }
        }
    }
}

/// The digest of each prompt of a commit, by folder.
async fn prompts(client: &Client, repo: &str, commit: &str) -> Result<BTreeMap<String, String>, ApiError> {
    let root = client.tree(repo, commit, false).await?;
    let folder = root.entries.iter().find(|entry| entry.path == FOLDER && entry.kind == "tree");
    let Some(folder) = folder else { return Ok(BTreeMap::new()) };
    let tree = client.tree(repo, &folder.sha, true).await?;
    if tree.truncated {
        let failure =
            Failure::config(format!("`{FOLDER}` of `{}` has more files than GitHub lists", printable(repo)));
        return Err(ApiError::Invalid(failure.hint("pass the skill: `run-evals trigger SKILL`")));
    }
    let of_entry = |path: String, sha| {
        let folder = path.strip_suffix(FILE)?.strip_suffix('/')?;
        (!folder.contains('/')).then(|| (folder.to_owned(), sha))
    };
    let files = tree.entries.into_iter().filter(|entry| entry.kind == "blob");
    Ok(files.filter_map(|entry| of_entry(entry.path, entry.sha)).collect())
}

/// The component folder of a prompt path.
fn prompt_folder(path: &str) -> Option<&str> {
    let folder = path.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(FILE)?.strip_suffix('/')?;
    (!folder.contains('/')).then_some(folder)
}

/// An abbreviated commit.
pub(super) fn shortened(sha: &str) -> &str {
    sha.get(..7).unwrap_or(sha)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_prompt_of_a_component_counts() {
        assert_eq!(prompt_folder("components/rfp/prompt.md"), Some("rfp"));
        for other in [
            "components/prompt.md",
            "components/rfp/skill/prompt.md",
            "components/rfp/prompt.md.orig",
            "old/components/rfp/prompt.md",
            "componentsx/rfp/prompt.md",
            "components/rfp/xprompt.md",
        ] {
            assert_eq!(prompt_folder(other), None, "{other}");
        }
    }
}
