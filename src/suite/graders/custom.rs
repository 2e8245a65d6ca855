//! Assertions of a type that `.agentv` defines: a program of the suite, under the rules for commands.

use std::path::{Path, PathBuf};

use serde_json::Map;

use super::code::may_run;
use super::entry::GraderEntry;
use super::{kinds, listed};
use crate::model::{CodeGrader, Grader, GraderKind};
use crate::suite::find_custom_type;
use crate::suite::loader::Loader;
use crate::util::programs;

/// The runtime that AgentV starts them with.
const RUNTIME: &str = "bun";

/// The file that defines a type, if there is one.
pub(super) fn find(word: &str, loader: &Loader) -> Option<PathBuf> {
    if kinds::is_built_in(word) {
        return None;
    }
    // AgentV searches up to the root of the file system; directories above the repository are not part of the suite.
    let roots = &loader.lookup.roots;
    let is_root = |dir: &&Path| roots.iter().any(|root| root == *dir);
    let dirs: Vec<&Path> = loader.lookup.dir.ancestors().filter(is_root).collect();
    find_custom_type(word, &dirs).map(|(_, path)| path)
}

/// Reads an assertion of a type that this file defines.
pub(super) fn read(entry: GraderEntry, path: &Path, is_member: bool, loader: &mut Loader) -> Option<Grader> {
    let (word, at) = (entry.word.clone(), entry.type_span());
    if is_member {
        let message = format!("AgentV skips `{word}` in a `composite`, because `.agentv` defines it");
        loader.problems.error_with_hint(at, message, "write a `code-grader` that runs the same file");
        return None;
    }
    if !loader.lookup.roots.contain(path) {
        let hint = format!("only files in {} can be used, links resolved", loader.lookup.listed());
        loader.problems.error_with_hint(at, format!("the file of `{word}` is outside the roots"), hint);
        return None;
    }
    if !may_run(at, loader) {
        return None;
    }
    let shown = loader.lookup.shown(path).display().to_string();
    let Some(argument) = path.to_str() else {
        loader.problems.error(at, format!("the name of `{shown}` is not UTF-8"));
        return None;
    };
    if programs::find(RUNTIME, &programs::path()).is_none() {
        loader.problems.error_with_hint(
            at,
            format!("`{word}` is defined in `{shown}`, which runs with `{RUNTIME}`: not found"),
            format!("install {RUNTIME} (https://bun.sh), or use a `code-grader` with your own command"),
        );
        return None;
    }
    let unread: Vec<&str> = entry.other_keys().map(|(key, _)| key).collect();
    if !unread.is_empty() {
        let message =
            format!("`{word}` does not get {}: AgentV 4 passes no settings to such types", listed(unread));
        let hint = "a `code-grader` gets its settings as `config`".to_owned();
        loader.warn_once(at, message, Some(hint));
    }
    let code = CodeGrader {
        argv: [RUNTIME, "run", argument].map(ToOwned::to_owned).to_vec(),
        // As in AgentV, which uses its own working directory.
        cwd: loader.lookup.cwd.clone(),
        config: Map::new(),
        custom_type: Some(word.clone()),
    };
    Some(entry.grader(word, GraderKind::Code(code)))
}
