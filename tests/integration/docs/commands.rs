//! Every code block of the README and the tutorial: commands run, against a simulated GitHub and a mock model; files are
//! written before them; output is what the program prints; steps of workflows are those of a template.

use std::path::Path;
use std::process::Command;

use super::{code_blocks, is_step_of_a_template, root};
use crate::setup::scene::{Account, KEY, with_stdin};
use crate::support::MockLlm;

/// Commands that install this program.
const NOT_RUN: [&str; 3] = [
    "curl -fsSL https://github.com/agentv/run-evals/releases/latest/download/install.sh | sh",
    "cargo install --locked --git https://github.com/agentv/run-evals",
    "git clone https://github.com/agentv/run-evals && cd run-evals",
];

#[test]
fn commands_of_the_readme_run() {
    run_page(&read("README.md"), &[0, 4, 0, 4]);
}

#[test]
fn commands_of_the_tutorial_run() {
    run_page(&read("docs/tutorial.md"), &[0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
#[should_panic(expected = "run-evals evil")]
fn a_wrong_command_on_a_page_fails() {
    run_page("```sh\nrun-evals evil\n```\n", &[0]);
}

#[test]
#[should_panic(expected = "prints something else")]
fn wrong_output_on_a_page_fails() {
    run_page("```sh\nrun-evals --version\n```\n\n```text\nrun-evals 7.7.7\n```\n", &[0]);
}

#[test]
#[should_panic(expected = "a block in `console` is not tested")]
fn a_block_that_would_not_be_tested_fails() {
    run_page("```console\n$ run-evals --version\n```\n", &[]);
}

fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap()
}

/// Goes through the code blocks of a page in order; `codes` are the exit codes of the commands.
fn run_page(page: &str, codes: &[i32]) {
    let account = Account::new();
    let llm = MockLlm::start(&[]);
    let bin = Path::new(env!("CARGO_BIN_EXE_run-evals")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    std::os::unix::fs::symlink(root().join("fixtures"), account.workspace.path("fixtures")).unwrap();
    let mut codes = codes.iter();
    let mut printed = String::new();
    for (language, before, text) in code_blocks(page) {
        match language {
            "sh" => {
                for line in text.lines().filter(|line| !NOT_RUN.contains(line)) {
                    let model = format!(
                        "--provider openai-compatible --base-url {} --model mock-model --price 0.10:0.50",
                        llm.base_url()
                    );
                    let script = line.replace("cargo run --", "run-evals");
                    let script = script.replace("myorg/", "mona/").replace("--provider openai", &model);
                    let mut command = Command::new("sh");
                    account.workspace.like(command.args(["-c", &format!("exec 2>&1; {script}")]));
                    let output = with_stdin(command.env("PATH", &path).env("OPENAI_API_KEY", KEY), KEY);
                    let expected =
                        codes.next().unwrap_or_else(|| panic!("{line}: the test expects no command"));
                    assert_eq!(output.code, Some(*expected), "{line}\n{}", output.stdout);
                    printed = output.stdout;
                }
            }
            "yaml" => match file_named_in(before) {
                Some(file) => {
                    let base_url =
                        format!("    provider: openai-compatible\n    base_url: {}", llm.base_url());
                    account.workspace.write(file, text.replace("    provider: openai", &base_url) + "\n");
                }
                None => assert!(is_step_of_a_template(text), "neither a file nor of a template:\n{text}"),
            },
            "text" => assert!(
                without_times(&printed).contains(&without_times(text)),
                "the command prints something else:\n{printed}"
            ),
            _ => panic!("a block in `{language}` is not tested:\n{text}"),
        }
    }
    assert!(codes.next().is_none(), "the page has fewer commands than expected");
}

/// The YAML file that a line ends with, as in "`suite.eval.yaml`:".
fn file_named_in(line: &str) -> Option<&str> {
    let (_, name) = line.strip_suffix("`:")?.rsplit_once('`')?;
    [".yaml", ".yml"].iter().any(|end| name.ends_with(end)).then_some(name)
}

/// The words of a text without durations, which differ from run to run, and the spaces before them.
fn without_times(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        let is_time =
            ["ms", "s"].contains(&word) && words.last().is_some_and(|word| word.parse::<f64>().is_ok());
        if is_time {
            words.pop();
        } else {
            words.push(word);
        }
    }
    words.join(" ")
}
