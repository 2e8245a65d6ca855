//! The unmodified `gh` against the simulated GitHub, as a GitHub Enterprise Server: a third-party client accepts it.

use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::github::{MockGithub, NewToken, TokenKind};

const REPO: &str = "acme/runner";
const TOKEN: &str = "ghp_of-a-person";

/// What a job does instead of the runner: uploads an artifact over plain HTTP, and exits as its shard requires.
const RUNNER: &str = r#"#!/usr/bin/env python3
import base64, hashlib, io, json, os, ssl, sys, time, urllib.request, zipfile
env = os.environ
if env["INPUT_SHARD"] == "1":
    print("::error::the shard has no answers")
    sys.exit(5)
payload = env["ACTIONS_RUNTIME_TOKEN"].split(".")[1]
claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
scope = next(scope for scope in claims["scp"].split() if scope.startswith("Actions.Results:"))
ids = dict(zip(["workflow_run_backend_id", "workflow_job_run_backend_id"], scope.split(":")[1:]))
def send(method, url, body, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method)) as answer:
        return answer.read()
def call(method, **fields):
    url = env["ACTIONS_RESULTS_URL"] + "twirp/github.actions.results.api.v1.ArtifactService/" + method
    headers = {"Authorization": "Bearer " + env["ACTIONS_RUNTIME_TOKEN"], "Content-Type": "application/json"}
    return json.loads(send("POST", url, json.dumps(ids | fields).encode(), **headers))
buffer = io.BytesIO()
with zipfile.ZipFile(buffer, "w") as archive:
    archive.writestr("rows.jsonl", '{"id":"r0"}\n')
content = buffer.getvalue()
url = call("CreateArtifact", name="rows", version=4)["signed_upload_url"]
send("PUT", url, content, **{"x-ms-blob-type": "BlockBlob"})
digest = "sha256:" + hashlib.sha256(content).hexdigest()
call("FinalizeArtifact", name="rows", size=str(len(content)), hash=digest)
time.sleep(1)
"#;

#[test]
fn gh_dispatches_watches_views_and_downloads() {
    let scene = TlsGithub::start();
    let run = scene.dispatch("[0]");
    let watched = scene.gh(&["run", "watch", &run, "--exit-status", "-i", "1"]);
    assert!(watched.status.success(), "{}\n{:#?}", shown(&watched), scene.github.runs());
    assert!(shown(&watched).contains("shard 0"), "{}", shown(&watched));
    let fields = "databaseId,status,conclusion,displayTitle,event,headBranch,jobs,url,workflowName";
    let view = scene.json(&["run", "view", &run, "--json", fields]);
    assert_eq!((view["status"].as_str(), view["conclusion"].as_str()), (Some("completed"), Some("success")));
    assert_eq!(view["displayTitle"], "eval b1 0123456789abcdef");
    assert_eq!(view["jobs"][0]["steps"][1]["conclusion"], "success");
    let downloaded = scene.gh(&["run", "download", &run, "-n", "rows", "-D", "rows"]);
    assert!(downloaded.status.success(), "{}", shown(&downloaded));
    let rows = std::fs::read_to_string(scene.dir.path().join("rows/rows.jsonl")).unwrap();
    assert_eq!(rows, "{\"id\":\"r0\"}\n");
}

#[test]
fn gh_shows_a_failed_run_and_reruns_it() {
    let scene = TlsGithub::start();
    let run = scene.dispatch("[1]");
    let watched = scene.gh(&["run", "watch", &run, "--exit-status", "-i", "1"]);
    assert_eq!(watched.status.code(), Some(1), "{}", shown(&watched));
    let view = scene.gh(&["run", "view", &run]);
    assert!(shown(&view).contains("the shard has no answers"), "{}", shown(&view));
    let log = scene.gh(&["run", "view", &run, "--log-failed"]);
    assert!(shown(&log).contains("##[error]Docker run failed with exit code 5"), "{}", shown(&log));
    let again = scene.gh(&["run", "rerun", &run, "--failed"]);
    assert!(again.status.success(), "{}", shown(&again));
    scene.github.until(|runs| runs[0].attempt == 2 && runs[0].status == "completed");
    let list = scene.json(&[
        "run",
        "list",
        "--workflow",
        "run-evals.yml",
        "--json",
        "databaseId,displayTitle,conclusion",
    ]);
    assert_eq!((list[0]["databaseId"].to_string(), list[0]["conclusion"].as_str()), (run, Some("failure")));
}

/// A server with TLS, a repository, and an empty directory with no configuration of `gh`.
struct TlsGithub {
    github: MockGithub,
    dir: TempDir,
}

impl TlsGithub {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("runner");
        crate::support::write_program(&program, RUNNER);
        let github = MockGithub::start_with(&["--tls", "--runner", program.to_str().unwrap()]);
        let machine_env = [("SSL_CERT_FILE".to_owned(), github.urls().ca_file.clone().unwrap())].into();
        github.runner_repo_on(REPO, &[], machine_env);
        let grants = [(REPO.to_owned(), std::collections::BTreeMap::new())].into();
        github.new_token(&NewToken {
            token: TOKEN.into(),
            login: "mona".into(),
            kind: TokenKind::Classic,
            grants,
            ..NewToken::default()
        });
        // Not in the environment: this `gh` sends such a token to every host, even after a redirect.
        let host = host(&github);
        let config = format!("\"{host}\":\n  user: mona\n  oauth_token: {TOKEN}\n  git_protocol: https\n");
        std::fs::write(dir.path().join("hosts.yml"), config).unwrap();
        Self { github, dir }
    }

    /// Starts a run and returns its id, which this `gh` does not print.
    fn dispatch(&self, shards: &str) -> String {
        let shards = format!("shards={shards}");
        let mut args = vec!["workflow", "run", "run-evals.yml"];
        let inputs = [
            "batch_id=b1",
            "dispatch_id=0123456789abcdef",
            "prompts_artifact=inline:eA==",
            "batch_sha256=00",
        ];
        for input in inputs.into_iter().chain([&*shards, "results=artifact", "runner_options={}"]) {
            args.extend(["-f", input]);
        }
        let started = self.gh(&args);
        assert!(started.status.success(), "{}", shown(&started));
        self.github.until(|runs| runs.len() == 1)[0].id.to_string()
    }

    fn gh(&self, args: &[&str]) -> Output {
        let host = host(&self.github);
        let mut command = Command::new("gh");
        command
            .args(args)
            .args(["--repo", &format!("{host}/{REPO}")])
            .current_dir(self.dir.path())
            .env_clear();
        command
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("GH_HOST", host);
        command
            .env("GH_CONFIG_DIR", self.dir.path())
            .env("SSL_CERT_FILE", self.github.urls().ca_file.as_ref().unwrap());
        command.env("GH_NO_UPDATE_NOTIFIER", "1").output().expect("`gh` is installed")
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.gh(args);
        assert!(output.status.success(), "{}", shown(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn host(github: &MockGithub) -> String {
    github.urls().server_url.trim_start_matches("https://").to_owned()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
