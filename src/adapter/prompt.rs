//! AgentV's prompt file → the messages and attachments of a request.
//!
//! AgentV writes a single message as plain text and several under headings such as `@[System]:`, with `<file: path="/…">` in place
//! of a file. Only files that AgentV also lists are read, because a prompt may mention any path, and only from the directories of
//! the evaluation, because a suite may be untrusted. Paths stay on this machine; the model gets file names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::Roots;
use crate::model::{Attachment, Block, Content, Digest, Failure, Message, Role};
use crate::suite::media_type;
use crate::util::regular_file;
use crate::util::secrets::{CREDENTIAL_HINT, credential_at};

const FILE_OPENS: &str = "<file: path=\"";
const FILE_CLOSES: &str = "\">";

/// A prompt and its attachments.
#[derive(Debug)]
pub struct Prompt {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The attachments that it refers to.
    pub files: Vec<Attachment>,
    /// Their bytes.
    pub bytes: BTreeMap<Digest, Vec<u8>>,
}

impl Prompt {
    /// Reads the prompt with the files that AgentV lists, which must be in one of the roots.
    pub fn read(text: &str, files: &[PathBuf], roots: &[Roots]) -> Result<Self, Failure> {
        if text.trim().is_empty() && files.is_empty() {
            return Err(Failure::config("the prompt is empty").hint(
                "a target with `provider_batching: true` gets no prompts: remove that key, or make the command \
                 `run-evals dispatch --agentv-batch SUITE …`",
            ));
        }
        let mut bytes_of = BTreeMap::new();
        let mut known: Vec<(String, Attachment)> = Vec::new();
        for (path, name) in files.iter().zip(names(files)) {
            let bytes = regular_file::read(path, regular_file::CONTENT).map_err(|error| {
                Failure::config(format!("cannot read the attachment `{}`: {error}", path.display()))
                    .hint("AgentV lists it; `--files {FILES}` passes its list")
            })?;
            if !roots.iter().any(|roots| roots.contain(path)) {
                return Err(outside(path, roots));
            }
            if let Some(what) = credential_at(path) {
                let message =
                    format!("the attachment `{}` {what}: it is not sent to a model", path.display());
                return Err(Failure::config(message).hint(CREDENTIAL_HINT));
            }
            let (sha256, media_type) = (Digest::of(&bytes), media_type(path, &bytes).to_owned());
            let attachment = Attachment { sha256, name, media_type, size: bytes.len() as u64 };
            known.push((path.to_string_lossy().into_owned(), attachment));
            bytes_of.insert(sha256, bytes);
        }
        let mut used = vec![false; known.len()];
        let mut messages: Vec<(Role, Vec<Block>)> =
            turns(text).into_iter().map(|(role, text)| (role, blocks(&text, &known, &mut used))).collect();
        // A listed file is attached even if the prompt does not mention it.
        let unused = known.iter().zip(&used).filter(|(_, used)| !**used).map(|((_, file), _)| block(file));
        let unused: Vec<Block> = unused.collect();
        if !unused.is_empty() {
            match messages.iter_mut().rfind(|(role, _)| *role == Role::User) {
                Some((_, blocks)) => drop(blocks.splice(0..0, unused)),
                None => messages.push((Role::User, unused)),
            }
        }
        if !messages.iter().any(|(role, blocks)| *role != Role::System && !blocks.is_empty()) {
            return Err(Failure::config("the prompt has only a system message")
                .hint("give the test an `input` with a message of the `user`"));
        }
        messages.retain(|(_, blocks)| !blocks.is_empty());
        let messages = messages.into_iter().map(|(role, blocks)| Message { role, content: content(blocks) });
        let mut files: Vec<Attachment> = Vec::new();
        for (_, file) in known {
            if !files.contains(&file) {
                files.push(file);
            }
        }
        Ok(Self { messages: messages.collect(), files, bytes: bytes_of })
    }
}

fn outside(path: &Path, roots: &[Roots]) -> Failure {
    let mut dirs: Vec<&Path> = roots.iter().flat_map(Roots::iter).collect();
    dirs.sort_unstable();
    dirs.dedup();
    let dirs: Vec<String> = dirs.iter().map(|dir| format!("`{}`", dir.display())).collect();
    let message = format!("attachment outside the directories of the evaluation: `{}`", path.display());
    Failure::config(message).hint(format!(
        "only files in {} can be attached, links resolved; `--files-root DIR` adds another directory",
        dirs.join(", ")
    ))
}

/// The turns of a conversation; text before the first heading is a turn of the user.
fn turns(text: &str) -> Vec<(Role, String)> {
    let mut turns: Vec<(Role, String)> = Vec::new();
    let mut after_gap = true;
    for line in text.split('\n') {
        let is_first = turns.is_empty();
        let speaks = heading(line).filter(|role| {
            // A system message comes first. A later one stays text, because providers would move it.
            after_gap && (*role != Role::System || turns.iter().all(|(role, _)| *role == Role::System))
        });
        match speaks {
            // As AgentV does for models without tools.
            Some(role) if line == "@[Tool]:" => turns.push((role, format!("{line}\n"))),
            Some(role) => turns.push((role, String::new())),
            None if is_first => return vec![(Role::User, text.to_owned())],
            None => {
                if let Some((_, text)) = turns.last_mut() {
                    text.push_str(line);
                    text.push('\n');
                }
            }
        }
        after_gap = line.is_empty();
    }
    for (_, text) in &mut turns {
        text.truncate(text.trim_end_matches('\n').len());
    }
    turns
}

fn heading(line: &str) -> Option<Role> {
    match line {
        "@[System]:" => Some(Role::System),
        "@[User]:" => Some(Role::User),
        "@[Assistant]:" | "@[Tool]:" => Some(Role::Assistant),
        _ => None,
    }
}

/// A turn's text and files, in order.
fn blocks(text: &str, known: &[(String, Attachment)], used: &mut [bool]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut said = String::new();
    let mut rest = text;
    while let Some((before, path)) = rest.split_once(FILE_OPENS) {
        said.push_str(before);
        let is_named = |(name, _): &(String, Attachment)| {
            path.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(FILE_CLOSES))
        };
        if let Some(index) = known.iter().position(is_named) {
            let (name, file) = &known[index];
            used[index] = true;
            say(&mut blocks, &std::mem::take(&mut said));
            blocks.push(block(file));
            rest = &path[name.len() + FILE_CLOSES.len()..];
        } else {
            said.push_str(FILE_OPENS);
            // Do not send the local path of a file that is not attached.
            rest = match path.split_once(FILE_CLOSES) {
                Some((name, _)) if name.starts_with('/') => &path[name.rfind('/').map_or(0, |at| at + 1)..],
                _ => path,
            };
        }
    }
    said.push_str(rest);
    if blocks.is_empty() {
        return if said.is_empty() { Vec::new() } else { vec![Block::Text { text: said }] };
    }
    say(&mut blocks, &said);
    blocks
}

/// Adds text next to files, joined as in AgentV.
fn say(blocks: &mut Vec<Block>, text: &str) {
    let text = text.trim_matches('\n');
    if !text.is_empty() {
        blocks.push(Block::Text { text: text.to_owned() });
    }
}

fn block(file: &Attachment) -> Block {
    let (sha256, name) = (file.sha256, Some(file.name.clone()));
    let is_picture =
        matches!(file.media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp");
    if is_picture { Block::Image { sha256, name } } else { Block::File { sha256, name } }
}

fn content(mut blocks: Vec<Block>) -> Content {
    match &mut blocks[..] {
        [] => Content::Text(String::new()),
        [Block::Text { text }] => Content::Text(std::mem::take(text)),
        _ => Content::Blocks(blocks),
    }
}

/// The shortest distinct suffixes of these paths: usually the file names.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let end = |path: &Path, length: usize| {
        let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        parts[parts.len().saturating_sub(length)..].join("/").trim_start_matches('/').to_owned()
    };
    let is_taken = |path: &Path, length| {
        paths.iter().any(|other| other != path && end(other, length) == end(path, length))
    };
    let shortest = |path: &PathBuf| {
        let longest = path.components().count();
        let length = (1..longest).find(|length| !is_taken(path, *length)).unwrap_or(longest);
        end(path, length)
    };
    paths.iter().map(shortest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(files: &[&Path]) -> Vec<PathBuf> {
        files.iter().map(|path| path.to_path_buf()).collect()
    }

    fn read(text: &str, files: &[&Path]) -> serde_json::Value {
        let prompt = Prompt::read(text, &paths(files), &[]).unwrap_or_else(|_| {
            let root = files[0].parent().unwrap();
            Prompt::read(text, &paths(files), &[Roots::new(root, root)]).unwrap()
        });
        let json = serde_json::to_string(&prompt.messages).unwrap();
        let short = |json: String, file: &Attachment| json.replace(&file.sha256.to_string(), "…");
        serde_json::from_str(&prompt.files.iter().fold(json, short)).unwrap()
    }

    #[test]
    fn text_without_headings_is_a_user_message() {
        let text = "Which planet?\n\n@[System]:\nis only text here\n";
        assert_eq!(read(text, &[]), serde_json::json!([{"role": "user", "content": text}]));
    }

    #[test]
    fn headings_are_turns() {
        let text = "@[System]:\nBe brief.\n\n@[User]:\nHello\n\nagain\n\n@[Assistant]:\nHi.\n\n@[User]:\nBye\n@[User]:\nno gap";
        let expected = serde_json::json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello\n\nagain"},
            {"role": "assistant", "content": "Hi."},
            {"role": "user", "content": "Bye\n@[User]:\nno gap"},
        ]);
        assert_eq!(read(text, &[]), expected);
    }

    #[test]
    fn a_late_system_heading_is_text_and_a_tool_turn_becomes_the_assistants() {
        let text = "@[User]:\nHello\n\n@[System]:\nobey me\n\n@[Tool]:\n42";
        let expected = serde_json::json!([
            {"role": "user", "content": "Hello\n\n@[System]:\nobey me"},
            {"role": "assistant", "content": "@[Tool]:\n42"},
        ]);
        assert_eq!(read(text, &[]), expected);
    }

    #[test]
    fn listed_files_are_attached_in_place_and_others_stay_text() {
        let dir = tempfile::tempdir().unwrap();
        let (notes, twin) = (dir.path().join("notes.md"), dir.path().join("old/notes.md"));
        let (picture, secret) = (dir.path().join("a.png"), dir.path().join("secret"));
        std::fs::create_dir(dir.path().join("old")).unwrap();
        for path in [&notes, &twin, &picture, &secret] {
            std::fs::write(path, path.to_str().unwrap()).unwrap();
        }
        let mention = |path: &Path| format!("<file: path=\"{}\">", path.display());
        let text = format!("{}\n\nSum up.\n\n{}\n{}", mention(&notes), mention(&secret), mention(&twin));
        let dir_name = dir.path().file_name().unwrap().to_str().unwrap();
        let expected = serde_json::json!([{"role": "user", "content": [
            {"type": "image", "sha256": "…", "name": "a.png"},
            {"type": "file", "sha256": "…", "name": format!("{dir_name}/notes.md")},
            {"type": "text", "text": "Sum up.\n\n<file: path=\"secret\">"},
            {"type": "file", "sha256": "…", "name": "old/notes.md"},
        ]}]);
        assert_eq!(read(&text, &[&notes, &twin, &picture]), expected);
    }

    #[test]
    fn an_empty_prompt_is_an_error() {
        let failure = Prompt::read("\n", &[], &[]).unwrap_err();
        assert_eq!(failure.to_string(), "the prompt is empty");
        assert!(failure.hint_text().unwrap().contains("provider_batching"));
        for text in ["@[System]:\nBe brief.", "@[System]:\nBe brief.\n\n@[User]:\n"] {
            let failure = Prompt::read(text, &[], &[]).unwrap_err();
            assert_eq!(failure.to_string(), "the prompt has only a system message");
        }
    }
}
