//! A synthetic history of a skill library, written with `git fast-import` into the repository of the simulated GitHub.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use jiff::{SignedDuration, Timestamp};

use crate::support::github::{MockGithub, NewRepo};

/// The library.
pub(super) const REPO: &str = "meadow/prompt-library";

/// Commits in the order of their creation.
pub(super) struct History {
    stream: String,
    made: usize,
    /// The age of the first commit; each later one is a minute younger.
    begun: SignedDuration,
}

/// The SHAs of the commits, by their names in the test.
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// The full SHA of a commit.
    pub(super) fn of(&self, subject: &str) -> &str {
        &self.0[subject]
    }
}

impl History {
    /// A history that began this many hours ago.
    pub(super) fn new(hours_ago: i64) -> Self {
        Self { stream: String::new(), made: 0, begun: SignedDuration::from_hours(hours_ago) }
    }

    /// A pause of this many hours before the next commit.
    pub(super) fn pause(mut self, hours: i64) -> Self {
        self.begun -= SignedDuration::from_hours(hours);
        self
    }

    /// A commit on `main`. A change is a path and its content, or `None` to delete it.
    pub(super) fn commit(self, subject: &str, changes: &[(&str, Option<String>)]) -> Self {
        self.commit_on("main", subject, "", changes)
    }

    /// A commit on a branch; `from` are the lines of fast-import that name its parents, if they are not the tip of the branch.
    pub(super) fn commit_on(
        mut self,
        branch: &str,
        subject: &str,
        from: &str,
        changes: &[(&str, Option<String>)],
    ) -> Self {
        self.made += 1;
        let minutes = SignedDuration::from_mins(i64::try_from(self.made).unwrap());
        let time = Timestamp::now() - self.begun + minutes;
        let mut out = format!(
            "commit refs/heads/{branch}\nmark :{}\ncommitter Ada <ada@example.com> {} +0000\ndata {}\n{subject}\n{from}",
            self.made,
            time.as_second(),
            subject.len(),
        );
        for (path, content) in changes {
            match content {
                Some(content) => {
                    write!(out, "M 100644 inline {path}\ndata {}\n{content}\n", content.len()).unwrap();
                }
                None => writeln!(out, "D {path}").unwrap(),
            }
        }
        self.stream.push_str(&out);
        self.stream.push('\n');
        self
    }

    /// The number of the last commit, for `from`.
    pub(super) fn mark(&self) -> usize {
        self.made
    }

    /// Creates the repository.
    pub(super) fn store(&self, github: &MockGithub) {
        github.repo(&NewRepo { full_name: REPO.to_owned(), private: true, ..NewRepo::default() });
        self.add_to(github);
    }

    /// Adds the commits to the repository.
    pub(super) fn add_to(&self, github: &MockGithub) {
        let mut import = Command::new("git")
            .arg("--git-dir")
            .arg(github.git_dir(REPO))
            .args(["fast-import", "--quiet", "--force"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        import.stdin.take().unwrap().write_all(self.stream.as_bytes()).unwrap();
        assert!(import.wait().unwrap().success());
    }
}

/// All commits of all branches, by their subjects.
pub(super) fn names(github: &MockGithub) -> Names {
    let log = github.git(REPO, &["log", "--all", "--reflog", "--format=%H %s"]);
    Names(
        log.lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(sha, s)| (s.to_owned(), sha.to_owned()))
            .collect(),
    )
}

/// The path of a component's prompt.
pub(super) fn path(skill: &str) -> String {
    format!("components/{skill}/prompt.md")
}

/// A prompt of this version, as a change.
#[expect(clippy::unnecessary_wraps, reason = "a change that is nothing deletes")]
pub(super) fn prompt(version: &str) -> Option<String> {
    Some(format!(
        "---\nname: some-extractor\nversion: {version}\ncategory: extraction\ndomain: grants\nstatus: stable\n---\n# Title\n\n> Purpose: none\n\n---\n\n## Prompt\n\nRead the letter.\n"
    ))
}
