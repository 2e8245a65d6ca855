//! The key reaches GitHub sealed, and nothing else sees it.

use std::os::unix::fs::PermissionsExt as _;

use super::scene::{Account, KEY, with_stdin};

/// Programs that `init runner` might start, each recording its arguments and environment.
fn spies(account: &Account) -> String {
    for name in ["git", "gh", "curl"] {
        let log = account.workspace.path(&format!("{name}.log"));
        let script = format!(
            "#!/bin/sh\n{{ echo \"$0 $*\"; env; cat /proc/$PPID/cmdline /proc/$PPID/environ; }} >> '{}'\nexit 1\n",
            log.display()
        );
        account.workspace.write(&format!("bin/{name}"), script);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(account.workspace.path(&format!("bin/{name}")), mode).unwrap();
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

#[test]
fn a_typed_key_is_not_echoed() {
    // `script` gives the command a terminal and prints all that the terminal shows.
    let account = Account::new();
    let binary = env!("CARGO_BIN_EXE_run-evals");
    let line = format!("'{binary}' init runner mona/eval-runner --provider openai");
    let mut command = std::process::Command::new("script");
    account.workspace.like(command.args([
        "--quiet",
        "--return",
        "--echo",
        "never",
        "--command",
        &line,
        "/dev/null",
    ]));
    let output = with_stdin(&mut command, &format!("x\u{7f}{KEY}\n"));
    let shown = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(output.code, Some(0), "{shown}");
    assert!(shown.contains("OPENAI_API_KEY for `mona/eval-runner` (not shown): "), "{shown}");
    assert!(!shown.contains(KEY), "{shown}");
    assert_eq!(account.settings("mona/eval-runner").environments["run-evals"].secrets["OPENAI_API_KEY"], KEY);
}

#[test]
fn an_interrupted_prompt_creates_nothing() {
    let account = Account::new();
    let binary = env!("CARGO_BIN_EXE_run-evals");
    let line = format!("'{binary}' init runner mona/eval-runner --provider openai; stty -a");
    let mut command = std::process::Command::new("script");
    account.workspace.like(command.args(["--quiet", "--echo", "never", "--command", &line, "/dev/null"]));
    let output = with_stdin(&mut command, "half\u{3}");
    assert!(output.stdout.contains("error: interrupted"), "{}", output.stdout);
    assert!(output.stdout.contains(" isig icanon"), "the terminal was not restored: {}", output.stdout);
    assert!(account.github.settings("mona/eval-runner").is_none());
}
