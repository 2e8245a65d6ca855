//! Files that travel with a test: where they are, and what they are.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::files::normalized;
use super::loader::Loader;
use crate::config::{Roots, Span};
use crate::model::{Attachment, Digest};

const IMAGES: [(&str, &str); 7] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("bmp", "image/bmp"),
];

const DOCUMENTS: [(&str, &str); 11] = [
    ("pdf", "application/pdf"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("xml", "application/xml"),
    ("json", "application/json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
];

/// How a suite refers to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    File,
    Image,
}

/// The attachments that were looked for so far.
pub(super) struct Attachments {
    roots: Roots,
    /// By kind and spelling; a file that was not found is remembered too, and told once.
    known: HashMap<(Kind, String), Option<Attachment>>,
    paths: BTreeMap<Digest, PathBuf>,
}

impl Attachments {
    /// Files are looked for in these directories, and must lie in them.
    pub(super) fn new(roots: Roots) -> Self {
        Self { roots, known: HashMap::new(), paths: BTreeMap::new() }
    }

    /// Where files are looked for.
    pub(super) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Where the bytes of an attachment are.
    pub(super) fn path(&self, file: &Attachment) -> Option<&Path> {
        self.paths.get(&file.sha256).map(PathBuf::as_path)
    }

    /// Where the bytes of each attachment are.
    pub(super) fn into_paths(self) -> BTreeMap<Digest, PathBuf> {
        self.paths
    }
}

/// The file that `at` refers to; what is wrong with it is noted there.
pub(super) fn find(spelling: &str, kind: Kind, at: &Span, loader: &mut Loader) -> Option<Attachment> {
    let key = (kind, spelling.to_owned());
    if let Some(known) = loader.attachments.known.get(&key) {
        return known.clone();
    }
    let found = look_up(spelling, kind, at, loader);
    loader.attachments.known.insert(key, found.clone());
    found
}

fn look_up(spelling: &str, kind: Kind, at: &Span, loader: &mut Loader) -> Option<Attachment> {
    let name = spelling.trim_start_matches(['/', '\\']);
    if name.is_empty() {
        loader.problems.error(at, format!("`{spelling}` is not the path of a file"));
        return None;
    }
    let absolute = Some(PathBuf::from(spelling)).filter(|path| path.is_absolute());
    let below = loader.attachments.roots.iter().map(|dir| dir.join(name));
    let candidates: Vec<PathBuf> = absolute.into_iter().chain(below).map(|path| normalized(&path)).collect();
    let Some(path) = candidates.into_iter().find(|path| path.is_file()) else {
        not_found(name, at, loader);
        return None;
    };
    if !loader.attachments.roots.contain(&path) {
        let message = format!("attachment outside the roots: `{spelling}`");
        let hint = format!("only files in {} can be attached, links resolved", directories(loader));
        loader.problems.error_with_hint(at, message, hint);
        return None;
    }
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let message = format!("cannot read `{}`: {error}", loader.shown(&path).display());
            loader.problems.error(at, message);
            return None;
        }
    };
    let media_type = media_type(&path, &bytes);
    if kind == Kind::Image && !IMAGES.iter().any(|(_, image)| *image == media_type) {
        let endings: Vec<_> = IMAGES.iter().map(|(ending, _)| format!("`.{ending}`")).collect();
        let hint = format!("an image ends in one of {}; attach others as `file`", endings.join(", "));
        loader.problems.error_with_hint(at, format!("`{name}` is no image by its name"), hint);
        return None;
    }
    let sha256 = Digest::of(&bytes);
    loader.attachments.paths.insert(sha256, path);
    Some(Attachment {
        sha256,
        name: name.to_owned(),
        media_type: media_type.to_owned(),
        size: bytes.len() as u64,
    })
}

fn not_found(name: &str, at: &Span, loader: &mut Loader) {
    // External test files may stand elsewhere than the suite, and authors expect their own directory to count.
    let case_file = loader.cwd.join(&at.source.path);
    let beside = case_file.parent().map(|dir| normalized(&dir.join(name))).filter(|path| path.is_file());
    let hint = match beside.as_ref().and_then(|path| path.strip_prefix(&loader.dir).ok()) {
        Some(path) => format!("paths begin at the suite's directory: write `{}`; ", path.display()),
        None => String::new(),
    };
    let hint = format!("{hint}looked in {}", directories(loader));
    loader.problems.error_with_hint(at, format!("attachment not found: `{name}`"), hint);
}

fn directories(loader: &Loader) -> String {
    loader.attachments.roots.listed(loader.cwd)
}

/// What a file is, by its name, or else by its bytes.
pub fn media_type(path: &Path, bytes: &[u8]) -> &'static str {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let known = IMAGES.iter().chain(&DOCUMENTS).find(|(known, _)| Some(*known) == ending.as_deref());
    match known {
        Some((_, media_type)) => media_type,
        None if std::str::from_utf8(bytes).is_ok() => "text/plain",
        None => "application/octet-stream",
    }
}
