//! The key reaches GitHub sealed, and nothing else sees it.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use super::scene::{Account, KEY, with_stdin};

/// Programs that `init runner` might start, each recording its arguments and environment.
fn spies(account: &Account) -> String {
    for name in ["git", "gh", "curl"] {
        let log = account.workspace.path(&format!("{name}.log"));
        let script = format!(
            "#!/bin/sh\n{{ echo \"$0 $*\"; env; cat /proc/$PPID/cmdline /proc/$PPID/environ; }} >> '{}'\nexit 1\n",
            log.display()
        );
        account.workspace.write_program(&format!("bin/{name}"), script);
    }
    format!("{}:/usr/bin:/bin", account.workspace.path("bin").display())
}

#[test]
fn the_key_is_in_no_argument_file_log_environment_or_plain_request() {
    let account = Account::new();
    let path = spies(&account);
    let args = ["init", "runner", "mona/eval-runner", "--provider", "openai", "-vv"];
    let mut command = account.workspace.command(&args);
    command.env("PATH", path).env("RUN_EVALS_LOG", "trace");
    let output = with_stdin(&mut command, &format!("{KEY}\n")).expect(0);
    assert_eq!(account.settings("mona/eval-runner").environments["run-evals"].secrets["OPENAI_API_KEY"], KEY);
    let encoded = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(KEY)
    };
    for form in [KEY, &encoded] {
        assert!(!format!("{}{}", output.stdout, output.stderr).contains(form));
        let requests = serde_json::to_string(&account.github.requests()).unwrap();
        assert!(!requests.contains(form), "a request has the key in plain");
        for (path, content) in account.workspace.tree() {
            let text = String::from_utf8_lossy(&content.unwrap_or_default()).into_owned();
            assert!(!text.contains(form), "{} has the key", path.display());
        }
        let commits = account.github.git("mona/eval-runner", &["log", "-p", "--all"]);
        assert!(!commits.contains(form));
    }
}

/// Runs a command line on a terminal, which `script` provides, and types this once it asks. Returns the exit code and all that the
/// terminal shows.
fn typed(account: &Account, line: &str, text: &str) -> (Option<i32>, String) {
    let mut command = std::process::Command::new("script");
    let args = ["--quiet", "--return", "--echo", "always", "--command", line, "/dev/null"];
    account.workspace.like(command.args(args));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = Vec::new();
    let mut byte = [0];
    while stdout.read(&mut byte).unwrap() == 1 {
        shown.push(byte[0]);
        if shown.ends_with(b"(not shown): ") {
            stdin.write_all(text.as_bytes()).unwrap();
        }
    }
    (child.wait().unwrap().code(), String::from_utf8(shown).unwrap())
}

fn command_line() -> String {
    format!("'{}' init runner mona/eval-runner --provider openai", env!("CARGO_BIN_EXE_run-evals"))
}

#[test]
fn a_typed_key_is_not_echoed() {
    let account = Account::new();
    let (code, shown) = typed(&account, &command_line(), &format!("x\u{7f}{KEY}\n"));
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.starts_with("OPENAI_API_KEY for `mona/eval-runner` (not shown): "), "{shown}");
    assert!(!shown.contains(KEY), "{shown}");
    assert_eq!(account.settings("mona/eval-runner").environments["run-evals"].secrets["OPENAI_API_KEY"], KEY);
}

#[test]
fn an_interrupted_prompt_creates_nothing() {
    let account = Account::new();
    let (_, shown) = typed(&account, &format!("{}; stty -a", command_line()), "half\u{3}");
    assert!(shown.contains("error: interrupted"), "{shown}");
    assert!(
        shown.contains("isig icanon") && shown.contains(" echo "),
        "the terminal was not restored: {shown}"
    );
    assert!(account.github.settings("mona/eval-runner").is_none());
}
