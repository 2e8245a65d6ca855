//! The remote: the commit of the `ref`, and its relation to the local one.

use std::path::Path;

use super::clone_state::CloneState;
use super::config;
use super::failure::{Failure, FailureKind};
use super::registry::{Benchmark, GitSource};
use crate::git::Transport;
use crate::util::WorkDir;

/// The ref under which fetched commits are kept.
const FETCHED: &str = "refs/sync/fetched";
/// How far to deepen the history if a date does not reach the local commit.
const DEEPER: [&str; 2] = ["--deepen=1000", "--deepen=10000"];

/// The remote side of a benchmark's `ref`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Upstream {
    /// What to fetch: the full name, or a commit.
    pub(super) name: String,
    /// The commit.
    pub(super) commit: String,
}

/// How the local commit relates to the remote one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    /// The same commit.
    Same,
    /// The remote is this many commits ahead, as far as they were fetched.
    Behind(u64),
    /// The local commit is this many commits ahead.
    Ahead(u64),
    /// Both have commits that the other lacks, as far as known.
    Apart,
}

impl Upstream {
    /// Resolves the source's `ref` on the remote.
    pub(super) fn ask(reach: &Transport, source: &GitSource, benchmark: &Benchmark) -> anyhow::Result<Self> {
        // An empty directory, so that no enclosing repository has an effect.
        let nowhere = WorkDir::new()?;
        let Some(reference) = &source.reference else { return Self::default_branch(reach, nowhere.path()) };
        if is_commit(reference) {
            return Ok(Self { name: reference.clone(), commit: reference.clone() });
        }
        let (branch, tag) = match reference {
            full if full.starts_with("refs/heads/") => (full.clone(), String::new()),
            full if full.starts_with("refs/tags/") => (String::new(), full.clone()),
            short => (format!("refs/heads/{short}"), format!("refs/tags/{short}")),
        };
        let listed =
            reach.list(nowhere.path(), &[&branch, &tag, &format!("{tag}^{{}}")].map(String::as_str))?;
        let found = |wanted: &str| {
            let line =
                listed.lines().find_map(|line| line.split_once('\t').filter(|(_, name)| *name == wanted));
            line.map(|(id, _)| id.to_owned())
        };
        if let Some(commit) = found(&branch) {
            return Ok(Self { name: branch, commit });
        }
        if let Some(commit) = found(&format!("{tag}^{{}}")).or_else(|| found(&tag)) {
            return Ok(Self { name: tag, commit });
        }
        let reason = format!("`{reference}` is neither a branch nor a tag of `{}`", source.url);
        let is_short = reference.len() >= 7 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
        let whole = if is_short { "; a commit needs all of its digits, in lower case" } else { "" };
        let (id, registry) = (&benchmark.id, benchmark.registry.display());
        let fix = format!("change `source.ref` of `{id}` in `{registry}`{whole}");
        Err(Failure::new(FailureKind::UnknownRef, reason).fix(fix).into())
    }

    fn default_branch(reach: &Transport, nowhere: &Path) -> anyhow::Result<Self> {
        let listed = reach.list(nowhere, &["HEAD"])?;
        let name = listed.lines().find_map(|line| line.strip_prefix("ref: ")?.strip_suffix("\tHEAD"));
        let commit =
            listed.lines().find_map(|line| line.strip_suffix("\tHEAD").filter(|id| !id.starts_with("ref:")));
        if let (Some(name), Some(commit)) = (name, commit) {
            return Ok(Self { name: name.to_owned(), commit: commit.to_owned() });
        }
        let reason = format!("`{}` has no default branch with commits", reach.url());
        Err(Failure::new(FailureKind::UnknownRef, reason).fix("name a branch with `source.ref`").into())
    }

    /// The branch, if it is one.
    pub(super) fn branch(&self) -> Option<&str> {
        self.name.strip_prefix("refs/heads/")
    }

    /// The tag, if it is one.
    pub(super) fn tag(&self) -> Option<&str> {
        self.name.strip_prefix("refs/tags/")
    }

    /// How the clone's commit relates to this one. Fetches only commits, no files, and none of them into the clone. If the ref has
    /// moved since it was resolved, this moves along.
    pub(super) fn relation(&mut self, view: &CloneState, reach: &Transport) -> anyhow::Result<Relation> {
        if view.head == self.commit {
            return Ok(Relation::Same);
        }
        if view.place.holds("cat-file", &["-e", &format!("{}^{{commit}}", self.commit)])?
            && view.is_ancestor(&self.commit, &view.head)?
        {
            return Ok(Relation::Ahead(count(view, &self.commit, &view.head)?));
        }
        let date = view.place.ask("log", &["-1", "--format=%ct", "--end-of-options", &view.head])?;
        // Usually fetch only the commits since the local one. A clone with full history
        // negotiates this itself.
        let first = if view.is_shallow { Some(format!("--shallow-since={date}")) } else { None };
        let mut tries: Vec<Option<String>> = vec![first];
        if view.is_shallow {
            // Clocks may be wrong. If even this is not enough, the history counts as another one.
            tries.push(Some("--depth=1".to_owned()));
            tries.extend(DEEPER.map(|deeper| Some(deeper.to_owned())));
        }
        for how in tries {
            match self.fetch(view, reach, how.as_deref()) {
                // The remote fails this way if no commit is as recent as the local one.
                Err(error)
                    if how.as_deref().is_some_and(|how| how.starts_with("--shallow-since"))
                        && is_not_a_commit(&error) =>
                {
                    continue;
                }
                fetched => fetched?,
            }
            self.commit = view.place.ask("rev-parse", &["--verify", &format!("{FETCHED}^{{commit}}")])?;
            if self.commit == view.head {
                return Ok(Relation::Same);
            }
            if view.is_ancestor(&view.head, &self.commit)? {
                return Ok(Relation::Behind(count(view, &view.head, &self.commit)?));
            }
            if view.is_ancestor(&self.commit, &view.head)? {
                return Ok(Relation::Ahead(count(view, &self.commit, &view.head)?));
            }
        }
        Ok(Relation::Apart)
    }

    fn fetch(&self, view: &CloneState, reach: &Transport, how: Option<&str>) -> anyhow::Result<()> {
        config::write(view.place.git_dir(), reach.url(), view.object_format(), true)?;
        let refspec = format!("+{}:{FETCHED}", self.name);
        let mut args = vec!["--quiet", "--no-tags", "--no-write-fetch-head", "--filter=tree:0"];
        args.extend(how);
        args.extend(["--", "origin", &refspec]);
        view.place.transfer(reach, "fetch", &args, None, &|_| {}).map(drop)
    }
}

/// Whether a `ref` is a commit.
pub(super) fn is_commit(reference: &str) -> bool {
    matches!(reference.len(), 40 | 64)
        && reference.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn count(view: &CloneState, from: &str, to: &str) -> anyhow::Result<u64> {
    let counted = view.place.ask("rev-list", &["--count", "--end-of-options", &format!("{from}..{to}")])?;
    Ok(counted.parse().unwrap_or(0))
}

fn is_not_a_commit(error: &anyhow::Error) -> bool {
    let git = error.downcast_ref::<crate::git::GitError>();
    git.is_some_and(|error| {
        [
            "no commits selected for shallow",
            "error processing shallow info",
            "expected shallow",
            "the remote end hung up",
        ]
        .iter()
        .any(|words| error.stderr.contains(words))
    })
}
