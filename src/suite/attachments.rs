//! Files attached to a test: their paths and media types.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::loader::Loader;
use crate::config::Span;
use crate::model::{Attachment, Digest};
use crate::util::regular_file;

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
pub(super) enum ReferenceKind {
    File,
    Image,
}

/// The attachments found so far.
#[derive(Default)]
pub(super) struct Attachments {
    /// By kind and spelling; a missing file is stored, too, so that it is reported once.
    known: HashMap<(ReferenceKind, String), Option<Attachment>>,
    paths: BTreeMap<Digest, PathBuf>,
}

impl Attachments {
    /// The path of an attachment.
    pub(super) fn path(&self, file: &Attachment) -> Option<&Path> {
        self.paths.get(&file.sha256).map(PathBuf::as_path)
    }

    /// The path of each attachment.
    pub(super) fn into_paths(self) -> BTreeMap<Digest, PathBuf> {
        self.paths
    }
}

/// The file that `at` refers to; problems are recorded there.
pub(super) fn find(
    spelling: &str,
    kind: ReferenceKind,
    at: &Span,
    loader: &mut Loader,
) -> Option<Attachment> {
    let key = (kind, spelling.to_owned());
    if let Some(known) = loader.attachments.known.get(&key) {
        return known.clone();
    }
    let found = look_up(spelling, kind, at, loader);
    loader.attachments.known.insert(key, found.clone());
    found
}

fn look_up(spelling: &str, kind: ReferenceKind, at: &Span, loader: &mut Loader) -> Option<Attachment> {
    let name = spelling.trim_start_matches(['/', '\\']);
    if name.is_empty() {
        loader.problems.error(at, format!("`{spelling}` is not the path of a file"));
        return None;
    }
    let Some(path) = loader.lookup.find_file(spelling) else {
        loader.lookup.not_found("attachment", name, at, &mut loader.problems);
        return None;
    };
    if !loader.lookup.roots.contain(&path) {
        let message = format!("attachment outside the roots: `{spelling}`");
        let hint = format!("only files in {} can be attached, links resolved", loader.lookup.listed());
        loader.problems.error_with_hint(at, message, hint);
        return None;
    }
    if loader.is_credential(&path, at) {
        return None;
    }
    let bytes = match regular_file::read(&path, regular_file::CONTENT) {
        Ok(bytes) => bytes,
        Err(error) => {
            let message = format!("cannot read `{}`: {error}", loader.lookup.shown(&path).display());
            loader.problems.error(at, message);
            return None;
        }
    };
    let media_type = media_type(&path, &bytes);
    if kind == ReferenceKind::Image && !IMAGES.iter().any(|(_, image)| *image == media_type) {
        let endings: Vec<_> = IMAGES.iter().map(|(ending, _)| format!("`.{ending}`")).collect();
        let hint = format!("an image ends in one of {}; attach others as `file`", endings.join(", "));
        loader.problems.error_with_hint(at, format!("`{name}` is not an image by its name"), hint);
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

/// The media type of a file by its name, or else by its content.
pub fn media_type(path: &Path, bytes: &[u8]) -> &'static str {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let known = IMAGES.iter().chain(&DOCUMENTS).find(|(known, _)| Some(*known) == ending.as_deref());
    match known {
        Some((_, media_type)) => media_type,
        None if std::str::from_utf8(bytes).is_ok() => "text/plain",
        None => "application/octet-stream",
    }
}
