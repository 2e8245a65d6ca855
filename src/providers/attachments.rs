//! The content of a turn before vendor-specific encoding: text, images and documents.

use std::borrow::Cow;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Refusal;
use crate::model::{Attachment, Block, Content, Digest, Message, Request, Role};

/// Text that does not call itself `text/…`.
const TEXT_TYPES: [&str; 14] = [
    "application/json",
    "application/jsonl",
    "application/x-ndjson",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/xml",
    "application/csv",
    "application/markdown",
    "application/javascript",
    "application/typescript",
    "application/x-sh",
    "application/sql",
    "application/graphql",
];
/// File extensions of text, if the media type is unknown.
const TEXT_EXTENSIONS: [&str; 32] = [
    "c", "cfg", "cpp", "css", "csv", "go", "h", "html", "ini", "java", "js", "json", "jsonl", "kt", "log",
    "md", "mdx", "php", "py", "rb", "rs", "sh", "sql", "swift", "toml", "ts", "tsv", "tsx", "txt", "xml",
    "yaml", "yml",
];
const PDF: &str = "application/pdf";
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A request's attachments and their directory.
#[derive(Clone, Copy)]
pub(super) struct Attachments<'a> {
    files: &'a [Attachment],
    dir: &'a Path,
    /// The image formats that the vendor supports.
    images: &'static [&'static str],
}

/// A part of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// Text, including text files.
    Text(Cow<'a, str>),
    /// An image.
    Image {
        /// Its name in the suite.
        name: &'a str,
        /// Such as `image/png`.
        media_type: &'static str,
        /// Its bytes, without a `data:` prefix.
        base64: String,
    },
    /// A PDF.
    Pdf {
        /// Its name in the suite.
        name: &'a str,
        /// Its bytes, without a `data:` prefix.
        base64: String,
    },
}

impl<'a> Attachments<'a> {
    /// The attachments of this request, for a vendor with these image formats.
    pub(super) fn new(request: &'a Request, dir: &'a Path, images: &'static [&'static str]) -> Self {
        Self { files: &request.files, dir, images }
    }

    /// The parts of a turn, with attachments read. Consecutive texts become one part: some servers accept only strings.
    pub(super) fn parts(&self, message: &'a Message) -> Result<Vec<Part<'a>>, Refusal> {
        let blocks = match &message.content {
            Content::Text(text) => return Ok(vec![Part::Text(Cow::Borrowed(text))]),
            Content::Blocks(blocks) => blocks,
        };
        let mut parts = Vec::with_capacity(blocks.len());
        for block in blocks {
            parts.extend(self.part(block, message.role)?);
        }
        if parts.is_empty() {
            return Err(Refusal::bad_request("a message is empty: it has no text, and its files are empty"));
        }
        let texts: Option<Vec<&str>> =
            parts.iter().map(|part| if let Part::Text(text) = part { Some(&**text) } else { None }).collect();
        Ok(match texts.map(|texts| texts.join("\n\n")) {
            Some(text) => vec![Part::Text(Cow::Owned(text))],
            None => parts,
        })
    }

    /// The parts of a turn that can only be text.
    pub(super) fn texts(&self, message: &'a Message) -> Result<Vec<Cow<'a, str>>, Refusal> {
        let text = |part| match part {
            Part::Text(text) => Ok(text),
            Part::Image { name, .. } | Part::Pdf { name, .. } => Err(only_users(name, message.role)),
        };
        self.parts(message)?.into_iter().map(text).collect()
    }

    /// The part for a block; `None` for an empty text file.
    fn part(&self, block: &'a Block, role: Role) -> Result<Option<Part<'a>>, Refusal> {
        let (sha256, name, is_picture) = match block {
            Block::Text { text } => return Ok(Some(Part::Text(Cow::Borrowed(text)))),
            Block::File { sha256, name } => (sha256, name, false),
            Block::Image { sha256, name } => (sha256, name, true),
        };
        let file = find(self.files, sha256, name.as_deref())?;
        let kind = AttachmentKind::of(file, self.images);
        if is_picture && !matches!(kind, AttachmentKind::Image(_)) {
            return Err(Refusal::bad_request(format!(
                "attachment `{}` of type `{}` is not a picture that can be sent: {}",
                file.name,
                file.media_type,
                self.pictures()
            )));
        }
        if matches!(kind, AttachmentKind::Image(_) | AttachmentKind::Pdf) && role != Role::User {
            return Err(only_users(&file.name, role));
        }
        let name = &file.name;
        Ok(match kind {
            AttachmentKind::Text => self.text(file)?.map(|text| Part::Text(Cow::Owned(text))),
            AttachmentKind::Image(media_type) => {
                Some(Part::Image { name, media_type, base64: self.base64(file)? })
            }
            AttachmentKind::Pdf => Some(Part::Pdf { name, base64: self.base64(file)? }),
            AttachmentKind::Other => return Err(self.refuse(file)),
        })
    }

    /// A text file in AgentV's format; `None` if it is empty.
    fn text(&self, file: &Attachment) -> Result<Option<String>, Refusal> {
        let bytes = self.read(file)?;
        let content = std::str::from_utf8(&bytes).map_err(|_| {
            Refusal::bad_request(format!("attachment `{}` is not UTF-8 text: convert it", file.name))
        })?;
        let content = content.replace("\r\n", "\n");
        let content = content.trim_matches(|c: char| c.is_whitespace() || c == BYTE_ORDER_MARK);
        let shown = || format!("<file path=\"{}\">\n{content}\n</file>", quoted(&file.name));
        Ok((!content.is_empty()).then(shown))
    }

    fn base64(&self, file: &Attachment) -> Result<String, Refusal> {
        Ok(STANDARD.encode(self.read(file)?))
    }

    fn read(&self, file: &Attachment) -> Result<Vec<u8>, Refusal> {
        std::fs::read(self.dir.join(file.sha256.to_string()))
            .map_err(|error| Refusal::bad_request(format!("cannot read attachment `{}`: {error}", file.name)))
    }

    fn refuse(&self, file: &Attachment) -> Refusal {
        Refusal::bad_request(format!(
            "attachment `{}` of type `{}` cannot be sent: text, a PDF, or a picture ({})",
            file.name,
            file.media_type,
            self.pictures()
        ))
    }

    fn pictures(&self) -> String {
        let images: Vec<&str> = self.images.iter().map(|kind| kind.trim_start_matches("image/")).collect();
        images.join(", ")
    }
}

/// How an attachment is sent to the model.
enum AttachmentKind {
    Text,
    Image(&'static str),
    Pdf,
    Other,
}

impl AttachmentKind {
    fn of(file: &Attachment, images: &'static [&'static str]) -> Self {
        let essence = file.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let essence = if essence == "image/jpg" { "image/jpeg" } else { &essence };
        if let Some(image) = images.iter().find(|image| **image == essence) {
            Self::Image(image)
        } else if essence == PDF {
            Self::Pdf
        } else if is_text(essence, &file.name) {
            Self::Text
        } else {
            Self::Other
        }
    }
}

/// Whether an attachment is sent as text.
pub(super) fn is_text_file(file: &Attachment) -> bool {
    matches!(AttachmentKind::of(file, &[]), AttachmentKind::Text)
}

/// Whether an attachment is a PDF.
pub(super) fn is_pdf(file: &Attachment) -> bool {
    matches!(AttachmentKind::of(file, &[]), AttachmentKind::Pdf)
}

/// The attachment of a request with this digest, and this name if given.
pub(super) fn find<'a>(
    files: &'a [Attachment],
    sha256: &Digest,
    name: Option<&str>,
) -> Result<&'a Attachment, Refusal> {
    let is_meant = |file: &&Attachment| file.sha256 == *sha256 && name.is_none_or(|name| file.name == name);
    files.iter().find(is_meant).ok_or_else(|| {
        Refusal::bad_request(format!("a message refers to attachment {sha256}, which `files` does not list"))
    })
}

/// A file name for use inside double quotes.
pub(super) fn quoted(name: &str) -> Cow<'_, str> {
    if name.contains('"') { Cow::Owned(name.replace('"', "&quot;")) } else { Cow::Borrowed(name) }
}

fn is_text(essence: &str, name: &str) -> bool {
    let unknown = essence.is_empty() || essence == "application/octet-stream";
    let extension = || Path::new(name).extension()?.to_str().map(str::to_ascii_lowercase);
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || TEXT_TYPES.contains(&essence)
        || (unknown && extension().is_some_and(|extension| TEXT_EXTENSIONS.contains(&extension.as_str())))
}

fn only_users(name: &str, role: Role) -> Refusal {
    let role = if role == Role::System { "a system" } else { "an assistant" };
    Refusal::bad_request(format!(
        "attachment `{name}` is in {role} message: only user messages may carry pictures and PDFs"
    ))
}
