//! The state that all parts of the loader share.

use std::path::Path;

use super::SuiteOptions;
use super::allowance::{Allowance, TooLarge};
use super::attachments::Attachments;
use super::dialect::Keys;
use super::graders::GraderOptions;
use super::include::Templates;
use super::reader::{Lookup, Reader, ReaderState};
use crate::config::{
    Env, Fields, Key, Node, Problems, Source, Span, each_reference, interpolate_tree, unknown_hint,
};
use crate::util::regular_file;
use crate::util::secrets::{CREDENTIAL_HINT, credential_at};

/// The problems so far, and the inputs of the loader.
pub(super) struct Loader<'a> {
    env: &'a Env,
    pub(super) lookup: Lookup,
    pub(super) problems: Problems,
    pub(super) attachments: Attachments,
    /// How to read graders, if at all.
    pub(super) grades: bool,
    pub(super) grader_options: GraderOptions,
    templates: Templates,
    pub(super) composite_depth: usize,
    /// How much more text the suite may have.
    pub(super) text: Allowance,
    /// Whether reading has stopped because the suite is too large.
    pub(super) is_stopped: bool,
}

impl<'a> Loader<'a> {
    /// A loader for the suite at this absolute path.
    pub(super) fn new(suite: &Path, options: &SuiteOptions<'a>) -> Self {
        let dir = suite.parent().unwrap_or(suite).to_path_buf();
        Self {
            env: options.env,
            lookup: Lookup::new(dir, options.cwd.to_path_buf()),
            problems: Problems::default(),
            attachments: Attachments::default(),
            grades: options.graders.is_some(),
            grader_options: options.graders.unwrap_or_default(),
            templates: Templates::new(),
            composite_depth: 0,
            text: Allowance::default(),
            is_stopped: false,
        }
    }

    /// Records, once, that the suite is too large; further tests are not read.
    pub(super) fn stop(&mut self, TooLarge { message, hint }: TooLarge, at: &Span) {
        if !std::mem::replace(&mut self.is_stopped, true) {
            self.problems.error_with_hint(at, message, hint);
        }
    }

    /// Records a reference to a file outside the bundle; returns whether it is one.
    pub(super) fn leaves_bundle(&mut self, path: &Path, at: &Span) -> bool {
        let roots = &self.lookup.roots;
        let leaves = roots.is_bundle() && path.exists() && !roots.contain(path);
        if leaves {
            let message = format!("`{}` is outside the bundle", self.lookup.shown(path).display());
            let hint = format!("only files in {} can be used, links resolved", self.lookup.listed());
            self.problems.error_with_hint(at, message, hint);
        }
        leaves
    }

    /// Records a reference to a file that holds credentials, by its name; returns whether it is one. Files of a suite are sent to a model.
    pub(super) fn is_credential(&mut self, path: &Path, at: &Span) -> bool {
        let Some(what) = credential_at(path) else { return false };
        let path = self.lookup.shown(path);
        let message = format!("`{}` {what}: a suite does not send credentials to a model", path.display());
        self.problems.error_with_hint(at, message, CREDENTIAL_HINT);
        true
    }

    /// Records a warning once per file.
    pub(super) fn warn_once(&mut self, span: &Span, message: String, hint: Option<String>) {
        self.problems.warn_once(span, message, hint);
    }

    /// Warns about keys that no reader requested.
    pub(super) fn warn_unknown(&mut self, fields: &Fields, what: &str, legal: &[&str]) {
        for key in fields.unknown() {
            self.unknown(key, what, legal);
        }
    }

    /// Warns about keys of a mapping that the dialect does not have.
    pub(super) fn warn_foreign(&mut self, mapping: &Node, what: &str, keys: Keys) {
        for (key, _) in mapping.entries().unwrap_or_default() {
            if keys.part(&key.text).is_none() {
                self.unknown(key, what, &keys.current());
            }
        }
    }

    /// Warns about an unknown key.
    pub(super) fn unknown(&mut self, key: &Key, what: &str, legal: &[&str]) {
        let hint = unknown_hint(&key.text, legal, &format!("in {what}"));
        self.warn_once(&key.span, format!("unknown key `{}` in {what} is ignored", key.text), Some(hint));
    }
}

impl Reader for Loader<'_> {
    fn state(&mut self) -> ReaderState<'_> {
        ReaderState { lookup: &self.lookup, problems: &mut self.problems, templates: &mut self.templates }
    }

    fn read(&mut self, path: &Path, at: &Span) -> Option<Source> {
        // A message about such a file would quote its lines.
        if self.leaves_bundle(path, at) || self.is_credential(path, at) {
            return None;
        }
        match regular_file::read(path, regular_file::CONTENT) {
            Ok(bytes) => self.decode(path, bytes),
            Err(error) => {
                let message = format!("cannot read `{}`: {error}", self.lookup.shown(path).display());
                self.problems.error(at, message);
                None
            }
        }
    }

    /// A suite is sent to the model and stored in the batch, so it must not contain keys.
    fn interpolate(&mut self, node: &mut Node) {
        let env = self.env;
        each_reference(node, &mut |node, name| {
            if env.is_secret(name) {
                let message = format!("`{name}` holds a key: a suite may not refer to it");
                let hint = "keys belong only in a target's `api_key`; rename the variable if it holds no key";
                self.problems.error_with_hint(&node.span, message, hint);
            }
        });
        interpolate_tree(node, env, &mut |node, name| {
            let message = format!("the environment variable `{name}` is not set and becomes empty");
            let hint = format!("set it, or give a default: `${{{{ {name}:-default }}}}`");
            self.warn_once(&node.span, message, Some(hint));
        });
    }

    fn choice(&mut self, node: &Node, _: &str) -> Option<String> {
        node.as_str().map(ToOwned::to_owned)
    }

    fn may_include(&self, path: &Path) -> bool {
        self.lookup.roots.contain(path)
    }

    /// A missing test would distort the score.
    fn skipped(&mut self, at: &Span, message: String, hint: Option<&str>) {
        match hint {
            Some(hint) => self.problems.error_with_hint(at, message, hint),
            None => self.problems.error(at, message),
        }
    }

    fn remark(&mut self, at: &Span, message: String, hint: Option<String>) {
        self.problems.warn_once(at, message, hint);
    }
}

/// The position of a key in a mapping.
pub(super) fn key_span<'n>(mapping: &'n Node, name: &str) -> &'n Span {
    let entries = mapping.entries().unwrap_or_default();
    entries.iter().find(|(key, _)| key.text == name).map_or(&mapping.span, |(key, _)| &key.span)
}
