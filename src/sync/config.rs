//! The configuration of a clone: ours while a sync works on it, otherwise the user's.

use std::path::Path;

use anyhow::Context as _;

use super::upstream::Upstream;
use crate::git::{LFS_FILTER, config_file, set_config};

/// Writes a configuration that contains only our lines.
pub(super) fn write(git_dir: &Path, url: &str, object_format: &str, is_partial: bool) -> anyhow::Result<()> {
    let url = url.replace('\\', "\\\\").replace('"', "\\\"");
    let mut text = format!(
        "[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\ttrustctime = false\n\
         [remote \"origin\"]\n\turl = \"{url}\"\n"
    );
    if is_partial {
        text.push_str(
            "\tpromisor = true\n\tpartialclonefilter = blob:none\n[extensions]\n\tpartialClone = origin\n",
        );
    }
    if object_format == "sha256" {
        text.push_str("[extensions]\n\tobjectFormat = sha256\n");
    }
    std::fs::write(git_dir.join("config"), text)
        .with_context(|| format!("cannot write to `{}`", git_dir.display()))
}

/// Restores a clone's own configuration, with the changes of the sync; a new clone keeps ours.
pub(super) fn hand_over(
    git_dir: &Path,
    before: Option<Vec<u8>>,
    url: &str,
    upstream: &Upstream,
    with_lfs: bool,
) -> anyhow::Result<()> {
    let file = git_dir.join("config");
    let ours = config_file(&file)?;
    let is_new = before.is_none();
    if let Some(before) = before {
        std::fs::write(&file, before).with_context(|| format!("cannot write `{}`", file.display()))?;
    }
    let theirs = config_file(&file)?;
    let mut wanted: Vec<(String, String)> = vec![("remote.origin.url".to_owned(), url.to_owned())];
    // Add only missing settings: the user's own values stay.
    let mut missing = Vec::new();
    match (upstream.branch(), upstream.tag()) {
        (Some(branch), _) => {
            missing.push((format!("branch.{branch}.remote"), "origin".to_owned()));
            missing.push((format!("branch.{branch}.merge"), format!("refs/heads/{branch}")));
            missing.push((
                "remote.origin.fetch".to_owned(),
                format!("+refs/heads/{branch}:refs/remotes/origin/{branch}"),
            ));
        }
        (None, Some(tag)) => {
            missing.push(("remote.origin.fetch".to_owned(), format!("+refs/tags/{tag}:refs/tags/{tag}")));
        }
        (None, None) => {}
    }
    if with_lfs {
        wanted.extend(LFS_FILTER.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }
    missing.extend(ours.into_iter().filter(|(key, _)| !is_new && key.starts_with("submodule.")));
    let has = |key: &str, value: Option<&str>| {
        theirs.iter().any(|(known, is)| known == key && value.is_none_or(|value| is == value))
    };
    for (key, value) in wanted.iter().filter(|(key, value)| !has(key, Some(value))) {
        set_config(&file, key, value)?;
    }
    for (key, value) in missing.iter().filter(|(key, _)| !has(key, None)) {
        set_config(&file, key, value)?;
    }
    Ok(())
}
