//! What every part of the loader shares.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::SuiteOptions;
use super::attachments::Attachments;
use super::files::normalized;
use super::graders::{GraderOptions, Templates};
use crate::config::{
    Env, Fields, Node, Problems, Roots, Span, did_you_mean, each_reference, interpolate_tree, shown,
};

/// The problems so far and what is needed to find more.
pub(super) struct Loader<'a> {
    env: &'a Env,
    pub(super) cwd: &'a Path,
    /// The suite's directory, which `tests` is relative to.
    pub(super) dir: PathBuf,
    pub(super) problems: Problems,
    pub(super) attachments: Attachments,
    /// How graders are read, if they are.
    pub(super) grades: bool,
    pub(super) grader_options: GraderOptions,
    pub(super) templates: Templates,
    pub(super) composite_depth: usize,
    /// The warnings that were told, by file: a mistake on 100,000 lines is told once.
    told: HashSet<(PathBuf, String)>,
}

impl<'a> Loader<'a> {
    /// A loader for the suite at this absolute path.
    pub(super) fn new(suite: &Path, options: &SuiteOptions<'a>) -> Self {
        let dir = suite.parent().unwrap_or(suite).to_path_buf();
        let roots = Roots::new(&dir, options.cwd);
        Self {
            env: options.env,
            cwd: options.cwd,
            dir,
            problems: Problems::default(),
            attachments: Attachments::new(roots),
            grades: options.graders.is_some(),
            grader_options: options.graders.unwrap_or_default(),
            templates: Templates::new(),
            composite_depth: 0,
            told: HashSet::new(),
        }
    }

    /// The path as the user would name it.
    pub(super) fn shown(&self, path: &Path) -> PathBuf {
        shown(path, self.cwd)
    }

    /// What a name refers to: as it stands if it is absolute, else below the roots, the nearest first.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        let below = name.trim_start_matches(['/', '\\']);
        let absolute = Some(PathBuf::from(name)).filter(|path| path.is_absolute());
        let roots = self.attachments.roots().iter().filter(|_| !below.is_empty()).map(|dir| dir.join(below));
        absolute.into_iter().chain(roots).map(|path| normalized(&path)).find(|path| path.exists())
    }

    /// Whether a path, links resolved, lies in one of the roots.
    pub(super) fn is_inside(&self, path: &Path) -> bool {
        self.attachments.roots().contain(path)
    }

    /// The roots, as a message names them.
    pub(super) fn listed_roots(&self) -> String {
        self.attachments.roots().listed(self.cwd)
    }

    /// Notes a warning, unless the same one was noted in the same file.
    pub(super) fn warn_once(&mut self, span: &Span, message: String, hint: Option<String>) {
        if self.told.insert((span.source.path.clone(), message.clone())) {
            self.problems.warning(span, message, hint);
        }
    }

    /// Puts environment values into a tree. A suite goes to the model and into the batch, so keys have no place in it.
    pub(super) fn interpolate(&mut self, node: &mut Node) {
        let env = self.env;
        each_reference(node, &mut |node, name| {
            if env.is_secret(name) {
                let message = format!("`{name}` holds a key: a suite may not refer to it");
                let hint = "a key belongs in `api_key` of a target alone; a variable that holds none needs another name";
                self.problems.error_with_hint(&node.span, message, hint);
            }
        });
        interpolate_tree(node, env, &mut |node, name| {
            let message = format!("the environment variable `{name}` is not set: its place is left empty");
            let hint = format!("set it, or give a default: `${{{{ {name}:-default }}}}`");
            self.warn_once(&node.span, message, Some(hint));
        });
    }

    /// Warns of the keys that nobody asked for.
    pub(super) fn warn_unknown(&mut self, fields: &Fields, what: &str, legal: &[&str]) {
        for key in fields.unknown() {
            let hint = did_you_mean(&key.text, legal.iter().copied())
                .map(|meant| format!("did you mean `{meant}`?"))
                .or_else(|| Some(format!("the keys of {what} are `{}`", legal.join("`, `"))));
            self.warn_once(&key.span, format!("unknown key `{}` in {what}: it is ignored", key.text), hint);
        }
    }
}

/// Where a key of a mapping stands.
pub(super) fn key_span<'n>(mapping: &'n Node, name: &str) -> &'n Span {
    let entries = mapping.entries().unwrap_or_default();
    entries.iter().find(|(key, _)| key.text == name).map_or(&mapping.span, |(key, _)| &key.span)
}
