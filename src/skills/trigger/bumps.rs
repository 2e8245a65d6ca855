//! Finds the components with a MAJOR or MINOR version bump in a range of commits, and the commit of each.

use std::collections::VecDeque;

use tokio::task::JoinSet;

use super::range::{PriorState, Range, prompt_path};
use crate::config::skill_version;
use crate::github::{ApiError, Client, CommitQuery};
use crate::model::{CommitSha, Exit, Failure, SemVersion, SkillName};

/// How many components are checked at once.
const AT_ONCE: usize = 8;
/// How many commits of one prompt are searched if the range is not completely known.
const MOST_COMMITS: usize = 100;

/// A component with a version bump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bump {
    /// The component.
    pub skill: SkillName,
    /// Its version before the range; `None` if it is new.
    pub from: Option<SemVersion>,
    /// Its version at the end of the range.
    pub to: SemVersion,
    /// The commit that introduced its MAJOR.MINOR version.
    pub commit: CommitSha,
}

/// The version bumps of a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BumpSearch {
    /// By name.
    pub bumps: Vec<Bump>,
    /// Number of other changed prompts.
    pub others: usize,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// How one prompt changed.
enum PromptChange {
    Bump(Bump),
    Other,
    Unreadable(String),
}

/// Finds the version bumps of a range.
pub async fn find_bumps(client: &Client, repo: &str, range: &Range) -> Result<BumpSearch, ApiError> {
    let mut found = BumpSearch { warnings: range.warnings.clone(), ..BumpSearch::default() };
    let mut waiting: VecDeque<(SkillName, PriorState)> =
        range.changed.iter().map(|(skill, was)| (skill.clone(), *was)).collect();
    let mut looks = JoinSet::new();
    loop {
        while looks.len() < AT_ONCE
            && let Some((skill, was)) = waiting.pop_front()
        {
            let (client, repo, range) = (client.clone(), repo.to_owned(), range.clone());
            looks.spawn(async move { look(&client, &repo, &range, skill, was).await });
        }
        let Some(looked) = looks.join_next().await else { break };
        let looked = looked.map_err(|error| {
            ApiError::Invalid(Failure::new(Exit::Failure, format!("cannot look: {error}")))
        })?;
        match looked? {
            PromptChange::Bump(bump) => found.bumps.push(bump),
            PromptChange::Other => found.others += 1,
            PromptChange::Unreadable(why) => {
                found.others += 1;
                found.warnings.push(why);
            }
        }
    }
    found.bumps.sort_by(|one, other| one.skill.cmp(&other.skill));
    found.warnings.sort();
    Ok(found)
}

async fn look(
    client: &Client,
    repo: &str,
    range: &Range,
    skill: SkillName,
    was: PriorState,
) -> Result<PromptChange, ApiError> {
    let path = prompt_path(&skill);
    let Some(prompt) = client.file(repo, &path, &range.head).await? else { return Ok(PromptChange::Other) };
    let Some(to) = version_of(&prompt) else {
        return Ok(PromptChange::Unreadable(format!(
            "`{path}` has no `version: MAJOR.MINOR.PATCH` in its front matter, so it is not evaluated"
        )));
    };
    let from = match (&range.base, was) {
        (Some(base), PriorState::There) => {
            client.file(repo, &path, base).await?.and_then(|prompt| version_of(&prompt))
        }
        _ => None,
    };
    if !to.is_bump_from(from.as_ref()) {
        return Ok(PromptChange::Other);
    }
    let Some(commit) = raised_by(client, repo, range, &path, to).await? else {
        return Ok(PromptChange::Unreadable(format!(
            "`{path}` is now at {to}, but the commit of the bump is not among its last {MOST_COMMITS}: pass the skill and its commit"
        )));
    };
    let commit = commit.parse().map_err(|error| {
        ApiError::Invalid(Failure::new(Exit::Failure, format!("GitHub returned no commit: {error}")))
    })?;
    Ok(PromptChange::Bump(Bump { skill, from, to, commit }))
}

/// The commit that introduced the prompt's current MAJOR.MINOR version.
async fn raised_by(
    client: &Client,
    repo: &str,
    range: &Range,
    path: &str,
    to: SemVersion,
) -> Result<Option<String>, ApiError> {
    if range.inside.as_ref().is_some_and(|inside| inside.len() == 1) {
        return Ok(Some(range.head.clone()));
    }
    let query = CommitQuery { from: &range.head, path: Some(path), since: None, pages: 1 };
    let touched = client.commits(repo, query).await?;
    let is_all = touched.len() < MOST_COMMITS || range.inside.is_some();
    // Other commits came in on another line of the history.
    let is_inside = |sha: &str| range.inside.as_ref().is_none_or(|inside| inside.contains(sha));
    let mut inside: Vec<String> =
        touched.into_iter().map(|commit| commit.sha).filter(|sha| is_inside(sha)).collect();
    if range.inside.is_some() && inside.len() == 1 {
        return Ok(inside.pop());
    }
    if inside.is_empty() {
        return Ok(Some(range.head.clone()));
    }
    let mut raised = None;
    for sha in inside {
        let prompt = client.file(repo, path, &sha).await?;
        let version = prompt.and_then(|prompt| version_of(&prompt));
        if version.map(line) != Some(line(to)) {
            // A merge that changed both sides has no other commit to name.
            return Ok(Some(raised.unwrap_or_else(|| range.head.clone())));
        }
        raised = Some(sha);
    }
    Ok(raised.filter(|_| is_all))
}

/// The version in a `prompt.md`.
fn version_of(prompt_md: &[u8]) -> Option<SemVersion> {
    skill_version(std::str::from_utf8(prompt_md).ok()?)
}

/// The part of a version that evaluations depend on.
fn line(version: SemVersion) -> (u64, u64) {
    (version.major, version.minor)
}
