//! Exports the files that an evaluation reads from a commit into a separate directory. The checkout is not used, and nothing in the
//! commit is followed or run: no links, submodules, hooks or filters.

use std::path::Path;

use super::clones::OpenClone;
use super::failure::{CheckoutError, CheckoutProblem};
use crate::git::{EntryKind, ObjectId, TreeEntry};
use crate::model::{SkillName, printable};

/// The folder of all skills.
pub(super) const COMPONENTS: &str = "components/";
/// The largest file of a skill.
const LARGEST_FILE: u64 = 8 << 20;
/// The most bytes that are exported.
const MOST_BYTES: u64 = 256 << 20;
/// Folders of a skill that evaluations do not read; reports contain images.
const UNREAD: [&str; 3] = ["evals/reports/", "evals/runs/", "evals/drafts/"];
/// The kinds of files that a skill may read of other skills and of the top directory.
const SHARED: [&str; 3] = [".json", ".yaml", ".yml"];

type Result<T> = std::result::Result<T, CheckoutError>;

/// Writes the files that a skill needs of a commit to an existing directory.
pub(super) fn export(clone: &OpenClone, commit: &ObjectId, skill: &SkillName, to: &Path) -> Result<()> {
    let entries = clone
        .repository
        .entries_of(commit)
        .map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))?;
    let own = format!("{COMPONENTS}{skill}/");
    let prompt = format!("{own}prompt.md");
    if !entries.iter().any(|entry| entry.path == prompt) {
        return Err(unknown(&entries, skill, commit));
    }
    let mut bytes = 0;
    for entry in &entries {
        let Some(is_own) = wanted(&entry.path, &own) else { continue };
        let problem = match entry.kind {
            EntryKind::Link => {
                Some(("is a symbolic link", "replace it with the file: links are not followed"))
            }
            EntryKind::Module => {
                Some(("is a submodule", "replace it with the files: submodules are not fetched"))
            }
            EntryKind::File if !is_legal(&entry.path) => Some(("has a name that is not a path", "rename it")),
            EntryKind::File if entry.size > LARGEST_FILE => {
                Some(("is larger than 8 MiB", "keep large inputs in the data sets, as text"))
            }
            EntryKind::File => None,
        };
        match problem {
            None => {}
            // Other files of other skills are not needed.
            Some(_) if !is_own => continue,
            Some((what, hint)) => {
                let message = format!("`{}` {what}", printable(&entry.path));
                return Err(CheckoutError::new(CheckoutProblem::Invalid, message).hint(hint));
            }
        }
        bytes += entry.size;
        if bytes > MOST_BYTES {
            let message =
                format!("the files of `{skill}` and its schemas have more than {} MiB", MOST_BYTES >> 20);
            return Err(CheckoutError::new(CheckoutProblem::Invalid, message));
        }
        write(clone, entry, to).map_err(|error| CheckoutError::of(CheckoutProblem::Pull, error))?;
    }
    Ok(())
}

/// Whether a file is read, and whether it is the skill's own.
fn wanted(path: &str, own: &str) -> Option<bool> {
    if let Some(rest) = path.strip_prefix(own) {
        return (!UNREAD.iter().any(|folder| rest.starts_with(folder))).then_some(true);
    }
    let in_evals = path.starts_with(COMPONENTS) && path.contains("/evals/");
    (SHARED.iter().any(|end| path.ends_with(end)) && !in_evals).then_some(false)
}

/// Git itself refuses these names, but a commit can be made by hand.
pub(super) fn is_legal(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !path.split('/').any(|part| part.eq_ignore_ascii_case(".git"))
        && !path.contains(['\0', '\\'])
}

pub(super) fn write(clone: &OpenClone, entry: &TreeEntry, to: &Path) -> anyhow::Result<()> {
    let path = to.join(&entry.path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = std::fs::File::create_new(&path)?;
    let written =
        clone.repository.read_blob(&entry.id, |_, content| Ok(std::io::copy(content, &mut file)?))?;
    anyhow::ensure!(written.is_some(), "the clone does not have `{}`", printable(&entry.path));
    Ok(())
}

fn unknown(entries: &[TreeEntry], skill: &SkillName, commit: &ObjectId) -> CheckoutError {
    let mut names: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry.path.strip_prefix(COMPONENTS)?.strip_suffix("/prompt.md"))
        .filter(|name| !name.contains('/'))
        .collect();
    names.sort_unstable();
    let short = super::clones::short(commit);
    let error = CheckoutError::new(
        CheckoutProblem::UnknownSkill,
        format!("no skill `{skill}` in the library at {short}: `{COMPONENTS}{skill}/prompt.md` not found"),
    );
    match crate::config::did_you_mean(skill.as_str(), names.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None if names.is_empty() => error.hint("skills are the folders of `components` with a `prompt.md`"),
        None => error.hint(format!("there are: `{}`", printable(&names[..names.len().min(20)].join("`, `")))),
    }
}
