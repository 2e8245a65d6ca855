//! Files that a prompt names travel with it, and nothing else of this machine does.

use std::path::Path;

use super::stage::Calls;
use crate::remote::stage::REPO;

#[test]
fn a_file_reaches_the_model_and_its_path_stays_here() {
    let calls = Calls::new();
    let workspace = &calls.stage.workspace;
    workspace.write("evals/notes.md", "Rosebud was a sledge.");
    workspace.write("secret.txt", "not for a model");
    let (notes, secret) = (workspace.path("evals/notes.md"), workspace.path("secret.txt"));
    let mention = |path: &Path| format!("<file: path=\"{}\">", path.display());
    let prompt = format!("{}\n\nWhat was it? {}", mention(&notes), mention(&secret));
    let more = ["--workers", "1", "--files", notes.to_str().unwrap()];
    // The model echoes what it is asked.
    let answer = calls.call("c0", &prompt, 0, &more).answer();
    assert!(answer.contains("notes.md") && answer.contains("Rosebud was a sledge."), "{answer}");
    assert!(answer.contains(&mention(&secret)), "what AgentV does not list is text: {answer}");
    assert!(!answer.contains("not for a model"), "{answer}");
    assert!(!answer.contains("evals/notes.md"), "{answer}");
    let batch = calls.stage.github.git(REPO, &["for-each-ref", "--format=%(refname)"]);
    assert!(batch.contains("refs/heads/eval-results/"), "{batch}");
}

#[test]
fn turns_of_a_conversation_are_turns() {
    let calls = Calls::new();
    let prompt = "@[System]:\nBe brief.\n\n@[User]:\nOne?\n\n@[Assistant]:\n1\n\n@[User]:\nTwo?";
    // The model echoes the last message of the user.
    assert_eq!(calls.call("c0", prompt, 0, &["--workers", "1"]).answer(), "Two?");
}
