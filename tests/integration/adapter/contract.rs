//! The command contract of AgentV 5: a login shell in its own process group, which gets SIGTERM and later SIGKILL.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::stage::Calls;
use crate::support::stage::Stage;
use crate::support::until;

/// Starts a call as AgentV 5 does.
fn start(calls: &Calls, id: &str, message: &str, more: &[&str]) -> (Child, std::path::PathBuf) {
    let (command, output) = calls.command(id, message, more);
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_str().unwrap().replace('\'', "'\"'\"'"));
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    let mut shell = Command::new("/bin/sh");
    // More than one command keeps the shell alive: some shells replace themselves with the last command.
    shell.args(["-lc", &format!("{}; exit $?", words.join(" "))]).process_group(0).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let dir = command.get_current_dir().unwrap();
    let child = shell.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (child.spawn().unwrap(), output)
}

fn stderr(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_call_through_a_login_shell_gets_an_answer() {
    let calls = Calls::new();
    let (mut child, output) = start(&calls, "c0", "message 0", &["--workers", "1"]);
    assert!(child.wait().unwrap().success(), "{}", stderr(&mut child));
    let row: serde_json::Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    assert_eq!(row["output"][0]["content"], "message 0");
    assert!(row["duration_ms"].is_u64() && row["token_usage"]["input"].is_u64());
}

/// A command as AgentV 5 renders it: placeholders become paths and words in quotes.
fn rendered(calls: &Calls, command: &str, id: &str) -> (String, std::path::PathBuf) {
    let workspace = &calls.stage.workspace;
    workspace.write(&format!("tmp/{id} prompt.txt"), format!("message {id}"));
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\"'\"'"));
    let path = |name: &str| workspace.path(&format!("tmp/{id} {name}"));
    let (prompt, output) = (path("prompt.txt"), path("output.json"));
    let command = command
        .replace("/usr/local/bin/run-evals", &quoted(env!("CARGO_BIN_EXE_run-evals")))
        .replace("/path/to/targets.yaml", &quoted(workspace.path("targets.yaml").to_str().unwrap()))
        .replace("--target cloud-eval-runner", "--target cloud")
        .replace("--workers 50", "--workers 1")
        .replace("{PROMPT_FILE}", &quoted(prompt.to_str().unwrap()))
        .replace("{OUTPUT_FILE}", &quoted(output.to_str().unwrap()))
        .replace("{EVAL_ID}", &quoted(id))
        .replace("{ATTEMPT}", "0")
        .replace("{FILES}", "");
    (command, output)
}

/// The two files that AgentV 5 reads a provider from, as `docs/agentv.md` shows them.
#[test]
fn both_documented_forms_for_version_5_are_answered() {
    let config = include_str!("../../../fixtures/agentv/config.yaml");
    let providers = include_str!("../../../fixtures/agentv/providers.yaml");
    let page = include_str!("../../../docs/agentv.md");
    for file in [config, providers] {
        let (_, block) = file.split_once('\n').unwrap();
        assert!(page.contains(&format!("```yaml\n{block}```\n")), "docs/agentv.md does not show:\n{block}");
    }
    let config: serde_json::Value = serde_yaml::from_str(config).unwrap();
    let providers: serde_json::Value = serde_yaml::from_str(providers).unwrap();
    // AgentV 5 accepts only its own ids in `.agentv/config.yaml`; in a file that `--providers` names, any.
    assert_eq!(config["providers"][0]["id"], "cli");
    let calls = Calls::new();
    for (id, provider) in [("config", &config["providers"][0]), ("list", &providers[0])] {
        assert_eq!(provider["label"], "cloud-eval-runner");
        let (command, output) = rendered(&calls, provider["config"]["command"].as_str().unwrap(), id);
        let (like, _) = calls.command(id, "unused", &[]);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-lc", &command]).process_group(0).env_clear();
        shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // AgentV starts it in the workspace of the test, which has no targets file.
        let elsewhere = calls.stage.workspace.path("tmp");
        let answer = shell.current_dir(elsewhere).stdin(Stdio::null()).output().unwrap();
        assert!(answer.status.success(), "{id}: {}", String::from_utf8_lossy(&answer.stderr));
        let row: serde_json::Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
        assert_eq!(row["output"][0]["content"], format!("message {id}"));
    }
    assert_eq!(calls.stage.starts(), 2);
}

#[test]
fn a_failure_sets_the_error_key_and_the_exit_code() {
    let calls = Calls::on(Stage::new().env("GH_ENTERPRISE_TOKEN", "github_pat_wrong"));
    let (mut child, output) = start(&calls, "c0", "message 0", &["--workers", "1"]);
    assert!(!child.wait().unwrap().success());
    let row: serde_json::Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    let line = row["error"].as_str().unwrap();
    assert!(line.contains("Bad credentials"), "{line}");
    assert_eq!(stderr(&mut child).trim_end(), line);
}

/// Variables that a workspace's `.env` may try to set: the token, and the address of GitHub.
const HOSTILE_ENV: &str = "INPUT_TOKEN=github_pat_of_a_stranger\nGH_TOKEN=github_pat_of_a_stranger\nGITHUB_TOKEN=github_pat_of_a_stranger\n\
    GH_ENTERPRISE_TOKEN=github_pat_of_a_stranger\nGITHUB_ENTERPRISE_TOKEN=github_pat_of_a_stranger\n\
    RUN_EVALS_APP_KEY=stranger\nGITHUB_API_URL=http://127.0.0.1:9\nGH_HOST=127.0.0.1:9\nGITHUB_ACTIONS=true\nGITHUB_REPOSITORY=stranger/repo\n\
    GITHUB_RUN_ID=7\nACTIONS_RUNTIME_TOKEN=stranger\nACTIONS_RESULTS_URL=http://127.0.0.1:9/\nHTTP_PROXY=http://127.0.0.1:9\nGIT_SSH_COMMAND=false\n";

#[test]
fn a_workspace_cannot_replace_the_user_s_token() {
    let calls = Calls::new();
    calls.stage.workspace.write(".env", HOSTILE_ENV);
    let done = calls.call("c0", "message 0", 0, &["--workers", "1"]);
    assert_eq!(done.answer(), "message 0");
}

#[test]
fn a_workspace_cannot_give_a_token_to_a_user_who_has_none() {
    let calls = Calls::on(Stage::new().env("GH_ENTERPRISE_TOKEN", ""));
    calls.stage.workspace.write(".env", HOSTILE_ENV);
    let failure = calls.call("c0", "message 0", 0, &["--workers", "1"]).failure();
    assert!(failure.contains("no GitHub token for"), "{failure}");
    assert_eq!(calls.stage.github.requests().len(), 0, "no request was sent with a stranger's token");
}

#[test]
fn an_untrusted_target_cannot_send_a_token_to_its_repository() {
    for key in ["target", "ref", "results_branch"] {
        let calls = Calls::new();
        calls.stage.target(&format!("{key}: ${{{{ GH_ENTERPRISE_TOKEN }}}}"));
        let failure = calls.call("c0", "message 0", 0, &["--workers", "1"]).failure();
        assert!(failure.contains("`GH_ENTERPRISE_TOKEN` holds a key"), "{key}: {failure}");
        assert_eq!(calls.stage.github.requests().len(), 0, "{key}");
    }
}

#[test]
fn sigterm_ends_the_process_group_in_time_and_another_call_takes_the_lead() {
    let calls = Calls::with_llm(&["--latency-ms", "2000"]);
    let more = ["--workers", "2", "--window", "10m"];
    let (mut leader, _) = start(&calls, "c0", "message 0", &more);
    calls.until("waiting", 1);
    let (mut other, output) = start(&calls, "c1", "message 1", &more);
    until("the calls to the model", || calls.stage.llm.counter("in_flight") == 2);
    let asked = Instant::now();
    killpg(Pid::from_raw(i32::try_from(leader.id()).unwrap()), Signal::SIGTERM).unwrap();
    leader.wait().unwrap();
    // AgentV sends SIGKILL after this time.
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    assert!(other.wait().unwrap().success(), "{}", stderr(&mut other));
    let row: serde_json::Value = serde_json::from_slice(&std::fs::read(output).unwrap()).unwrap();
    assert_eq!(row["output"][0]["content"], "message 1");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(2);
}

#[test]
fn killing_the_shell_ends_the_call() {
    // AgentV 4 kills only the shell.
    let calls = Calls::with_llm(&["--latency-ms", "2000"]);
    let (mut shell, output) = start(&calls, "c0", "message 0", &["--workers", "1"]);
    until("the call to the model", || calls.stage.llm.counter("in_flight") == 1);
    shell.kill().unwrap();
    shell.wait().unwrap();
    assert_eq!(calls.call("c0", "message 0", 1, &["--workers", "1"]).answer(), "message 0");
    assert_eq!(calls.stage.starts(), 1);
    calls.stage.paid_once(1);
    assert!(!output.exists(), "the file would be left behind");
}
