//! Files named in a prompt are sent with it; no other local file is.

use std::path::Path;

use super::stage::Calls;
use crate::support::stage::REPO;

#[test]
fn a_file_reaches_the_model_without_its_local_path() {
    let calls = Calls::new();
    let workspace = &calls.stage.workspace;
    workspace.write("evals/notes.md", "Rosebud was a sledge.");
    workspace.write("secret.txt", "not for a model");
    let (notes, secret) = (workspace.path("evals/notes.md"), workspace.path("secret.txt"));
    let mention = |path: &Path| format!("<file: path=\"{}\">", path.display());
    let prompt = format!("{}\n\nWhat was it? {}", mention(&notes), mention(&secret));
    let more = ["--workers", "1", "--files", notes.to_str().unwrap()];
    // The model echoes its prompt.
    let answer = calls.call("c0", &prompt, 0, &more).answer();
    assert!(answer.contains("notes.md") && answer.contains("Rosebud was a sledge."), "{answer}");
    assert!(answer.contains("<file: path=\"secret.txt\">"), "what AgentV does not list is text: {answer}");
    assert!(!answer.contains(workspace.root().to_str().unwrap()), "{answer}");
    assert!(!answer.contains("not for a model"), "{answer}");
    assert!(!answer.contains("evals/notes.md"), "{answer}");
    let batch = calls.stage.github.git(REPO, &["for-each-ref", "--format=%(refname)"]);
    assert!(batch.contains("refs/heads/eval-results/"), "{batch}");
}

#[test]
fn a_file_outside_the_evaluation_is_refused_unless_its_directory_is_allowed() {
    let calls = Calls::new();
    let elsewhere = crate::support::temporary();
    let notes = elsewhere.path().join("notes.md");
    std::fs::write(&notes, "Rosebud was a sledge.").unwrap();
    // A symlink does not bypass the check.
    let link = calls.stage.workspace.path("link.md");
    std::os::unix::fs::symlink(&notes, &link).unwrap();
    let refused = [&notes, &link].map(|path| {
        let more = ["--workers", "1", "--files", path.to_str().unwrap()];
        let told = calls.call("c0", "What was it?", 0, &more).failure();
        let told = told.replace(path.to_str().unwrap(), "[file]");
        told.replace(calls.stage.workspace.root().to_str().unwrap(), "[dir]")
    });
    insta::assert_snapshot!(refused[0], @"exit 3: attachment outside the directories of the evaluation: `[file]` (hint: only files in `[dir]` can be attached, links resolved; `--files-root DIR` adds another directory)");
    assert_eq!(refused[1], refused[0]);
    let root = elsewhere.path().to_str().unwrap();
    let more = ["--workers", "1", "--files-root", root, "--files", notes.to_str().unwrap()];
    let answer = calls.call("c0", "What was it?", 0, &more).answer();
    assert!(answer.contains("Rosebud was a sledge."), "{answer}");
}

#[test]
fn conversation_turns_are_sent_as_separate_messages() {
    let calls = Calls::new();
    let prompt = "@[System]:\nBe brief.\n\n@[User]:\nOne?\n\n@[Assistant]:\n1\n\n@[User]:\nTwo?";
    // The model echoes the last user message.
    assert_eq!(calls.call("c0", prompt, 0, &["--workers", "1"]).answer(), "Two?");
}
