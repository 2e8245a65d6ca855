//! Names that GitHub and git have rules for.

/// The folders of branches that have a meaning of their own, where no results may lie: batches that are handed over,
/// branches of another repository while they are compared, and rows that came as artifacts.
const RESERVED_FOLDERS: [&str; 3] = ["eval-batch", "incoming", "artifact-results"];

/// The reserved folder that the folder of some results branches is, or lies in.
pub fn reserved_folder(folder: &str) -> Option<&'static str> {
    let top = folder.split('/').next().unwrap_or(folder);
    RESERVED_FOLDERS.into_iter().find(|reserved| *reserved == top)
}

/// Whether the text is a repository as `owner/name`.
pub fn is_repository(text: &str) -> bool {
    let legal = |part: &str, extra: &str, longest: usize| {
        (1..=longest).contains(&part.len())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
    };
    text.split_once('/').is_some_and(|(owner, name)| {
        legal(owner, "-_", 39)
            && !owner.starts_with('-')
            && legal(name, "-_.", 100)
            && !matches!(name, "." | "..")
            && name.strip_suffix(".git").is_none()
    })
}

/// Whether git allows the text as the name of a branch or tag, or as the beginning of one.
pub fn is_ref_name(text: &str) -> bool {
    let illegal = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    let part_is_legal = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && part.strip_suffix(".lock").is_none()
    };
    !text.starts_with('-')
        && !text.contains(illegal)
        && !text.contains("..")
        && !text.contains("@{")
        && text.split('/').all(part_is_legal)
}

/// Whether the text is safe as the name of an artifact, and of a file.
pub(super) fn is_artifact_name(text: &str) -> bool {
    (1..=200).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}
