//! Every command block of the README and the tutorial runs, against a simulated GitHub and a mock model.

use std::path::Path;
use std::process::Command;

use super::{blocks, root};
use crate::setup::scene::{Account, KEY, with_stdin};
use crate::support::MockLlm;

/// Commands that install this program or start this very test.
const NOT_RUN: [&str; 2] = ["cargo install --locked --git https://github.com/agentv/run-evals", "cargo test"];

#[test]
fn commands_of_the_readme_run() {
    run_page("README.md", &[4, 0, 4]);
}

#[test]
fn commands_of_the_tutorial_run() {
    run_page("docs/tutorial.md", &[0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

/// Writes the files and runs the commands of a page in order. `cargo run` is run from the repository, and its exit code is 0.
fn run_page(name: &str, codes: &[i32]) {
    let account = Account::new();
    let llm = MockLlm::start(&[]);
    let page = std::fs::read_to_string(root().join(name)).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_run-evals")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    std::os::unix::fs::symlink(root().join("fixtures"), account.workspace.path("fixtures")).unwrap();
    let mut files = blocks(&page, "yaml").into_iter();
    let mut codes = codes.iter();
    let mut file_before = |position: usize| {
        // Files that stand before this command block.
        while let Some((before, text)) = files.clone().next() {
            if (text.as_ptr() as usize) > position {
                break;
            }
            files.next();
            if let Some(file) = before
                .split('`')
                .rev()
                .nth(1)
                .filter(|file| Path::new(file).extension().is_some_and(|end| end == "yaml"))
            {
                let base_url = format!("    provider: openai-compatible\n    base_url: {}", llm.base_url());
                account.workspace.write(file, text.replace("    provider: openai", &base_url) + "\n");
            }
        }
    };
    for (_, block) in blocks(&page, "sh") {
        file_before(block.as_ptr() as usize);
        for line in block.lines().filter(|line| !NOT_RUN.contains(line)) {
            let is_quickstart = line.starts_with("cargo run -- ");
            let model = format!(
                "--provider openai-compatible --base-url {} --model mock-model --price 0.10:0.50",
                llm.base_url()
            );
            let script = line.replace("cargo run --", "run-evals");
            let script = script.replace("myorg/", "mona/").replace("--provider openai", &model);
            let mut command = Command::new("sh");
            account.workspace.like(command.args(["-c", &script]));
            let output = with_stdin(command.env("PATH", &path).env("OPENAI_API_KEY", KEY), KEY);
            let expected = if is_quickstart { 0 } else { *codes.next().expect("a code for each command") };
            assert_eq!(output.code, Some(expected), "{name}: {line}\n{}\n{}", output.stdout, output.stderr);
        }
    }
    assert!(codes.next().is_none(), "{name} has fewer commands than expected");
}
