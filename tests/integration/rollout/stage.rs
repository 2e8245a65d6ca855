//! A model, the trace gateway in front of it, a repository with rows and the workflow, and a client.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::github::{MockGithub, NewRepo, TOKEN};
use crate::support::{MockLlm, Server, Workspace};

/// The repository with the rows.
pub(crate) const REPO: &str = "acme/rollouts";
/// The token that the gateway requires.
pub(crate) const GATEWAY_TOKEN: &str = "gateway-token-never-to-be-seen-0123456789abcdef";
/// The key that the model requires; only the gateway has it.
pub(crate) const MODEL_KEY: &str = "sk-model-never-to-be-seen-0123456789";

/// A running `serve --traces`, killed with the test.
pub(crate) struct Gateway {
    server: Server,
    pub(crate) workspace: Workspace,
}

impl Gateway {
    /// A gateway in front of a model, on a free port.
    pub(crate) fn start(llm: &MockLlm) -> Self {
        Self::start_with(&llm.base_url(), "")
    }

    /// The same with additional lines in its target.
    pub(crate) fn start_with(base_url: &str, more: &str) -> Self {
        let workspace =
            Workspace::new().env("RUN_EVALS_SERVE_TOKEN", GATEWAY_TOKEN).env("MODEL_KEY", MODEL_KEY);
        workspace.write_target(base_url, &format!("api_key: ${{{{ MODEL_KEY }}}}\n{more}"));
        Self { server: Self::spawn(&workspace, &[]), workspace }
    }

    /// A gateway that reads its tokens from files, with these additional options.
    pub(crate) fn start_with_files(llm: &MockLlm, files: &[(&str, &str)], more: &[&str]) -> Self {
        let workspace = Workspace::new().env("MODEL_KEY", MODEL_KEY);
        workspace.write_target(&llm.base_url(), "api_key: ${{ MODEL_KEY }}\n");
        for (name, text) in files {
            workspace.write_private(name, text);
        }
        Self { server: Self::spawn(&workspace, more), workspace }
    }

    /// Makes it reload its files.
    pub(crate) fn reload(&self) {
        self.server.signal(nix::sys::signal::Signal::SIGHUP);
    }

    fn spawn(workspace: &Workspace, more: &[&str]) -> Server {
        let args = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--traces",
            "traces",
            "--trace-upstream",
            "llm",
            "--log-stderr",
        ];
        Server::start(&mut workspace.command(&[&args[..], more].concat()))
    }

    /// Kills it and starts it again, on another port.
    pub(crate) fn crash_and_restart(&mut self) {
        self.server.child.kill().unwrap();
        self.server.child.wait().unwrap();
        self.server = Self::spawn(&self.workspace, &[]);
    }

    /// Its address and port.
    pub(crate) fn address(&self) -> &str {
        &self.server.address
    }

    /// Its peak memory so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// By host name, as Eval Protocol's client requires.
    pub(crate) fn url(&self) -> String {
        format!("http://localhost:{}", self.address().rsplit(':').next().unwrap())
    }

    /// A request with the valid token.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        self.ask_as(Some(GATEWAY_TOKEN), method, path, body.map(Value::to_string).as_deref())
    }

    /// Any request.
    pub(crate) fn ask_as(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: Option<&str>,
    ) -> (u16, String) {
        let body = body.unwrap_or_default();
        let auth = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let mut stream = TcpStream::connect(self.address()).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{auth}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address(),
            body.len()
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        (status, if chunked { dechunked(body) } else { body.to_owned() })
    }

    /// A request with a JSON response.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, None);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The code of a rollout's status.
    pub(crate) fn code(&self, rollout_id: &str) -> Option<i64> {
        self.get(&format!("/v1/status?rollout_id={rollout_id}"))["status"]["code"].as_i64()
    }

    /// The worker's last message about it.
    pub(crate) fn message(&self, rollout_id: &str) -> String {
        let logs = self.get(&format!("/logs?tags=rollout_id:{rollout_id}"));
        logs["entries"][0]["status"]["message"].as_str().unwrap_or_default().to_owned()
    }

    /// The traces of a rollout.
    pub(crate) fn traces(&self, rollout_id: &str) -> Vec<Value> {
        let answer = self.get(&format!("/v1/traces/pointwise?tags=rollout_id:{rollout_id}&limit=100"));
        answer["traces"].as_array().unwrap().clone()
    }

    /// Everything that it has written.
    pub(crate) fn files(&self) -> String {
        let files = walkdir::WalkDir::new(self.workspace.path("traces")).into_iter().map(Result::unwrap);
        let files = files.filter(|entry| entry.file_type().is_file());
        files.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).collect()
    }
}

fn dechunked(body: &str) -> String {
    let mut rest = body;
    let mut text = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        text.push_str(&tail[..size]);
        rest = &tail[size + 2..];
    }
    text
}

/// The whole chain from rows to finished rows.
pub(crate) struct Stage {
    pub(crate) github: MockGithub,
    pub(crate) llm: MockLlm,
    pub(crate) gateway: Gateway,
    pub(crate) client: Workspace,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with_llm(&[])
    }

    /// A model with these options.
    pub(crate) fn with_llm(options: &[&str]) -> Self {
        Self::on(MockGithub::start(), options)
    }

    pub(crate) fn on(github: MockGithub, options: &[&str]) -> Self {
        let llm = MockLlm::start(&[&["--require-key", MODEL_KEY], options].concat());
        let gateway = Gateway::start(&llm);
        Self::before(github, llm, gateway)
    }

    /// A model of the test's own at this URL.
    pub(crate) fn with_model(base_url: &str) -> Self {
        Self::before(MockGithub::start(), MockLlm::start(&[]), Gateway::start_with(base_url, ""))
    }

    fn before(github: MockGithub, llm: MockLlm, gateway: Gateway) -> Self {
        let stage = Self { client: client(&github), github, llm, gateway };
        stage.github.repo(&NewRepo {
            full_name: REPO.to_owned(),
            private: true,
            secrets: [("ROLLOUT_API_KEY".to_owned(), GATEWAY_TOKEN.to_owned())].into(),
            ..NewRepo::default()
        });
        stage.github.token(TOKEN, "client", REPO, &[("actions", "write"), ("contents", "read")]);
        stage.github.put_file(REPO, ".github/workflows/rollout.yml", template("workflows/rollout.yml"));
        stage.github.put_file(REPO, "rollouts/rows.jsonl", template("fixtures/rollout/rows.jsonl"));
        stage.allow(&stage.gateway.url());
        stage.client.write("rows.jsonl", template("fixtures/rollout/rows.jsonl"));
        stage
    }

    /// Sets what rollouts may call.
    pub(crate) fn allow(&self, url: &str) {
        self.github.put_file(REPO, ".run-evals.yml", format!("rollout:\n  model_base_urls: ['{url}']\n"));
    }

    /// Adds rows, for the worker and the client.
    pub(crate) fn rows(&self, count: usize) {
        let line = |index: usize| json!({"messages": [{"role": "user", "content": format!("question {index}")}], "input_metadata": {"row_id": format!("row-{index}")}});
        let lines: String = (0..count).map(|index| format!("{}\n", line(index))).collect();
        self.github.put_file(REPO, "rollouts/rows.jsonl", &lines);
        self.client.write("rows.jsonl", lines);
    }

    /// The arguments of a dispatch of `rows.jsonl` to `out.jsonl`.
    pub(crate) fn args<'a>(more: &[&'a str], url: &'a str) -> Vec<&'a str> {
        let args = [
            "rollout",
            "dispatch",
            "rows.jsonl",
            "--target",
            "cloud",
            "--model",
            "mock-model",
            "--output",
            "out.jsonl",
        ];
        [&args, &["--model-base-url", url][..], more].concat()
    }

    /// Dispatches and waits.
    pub(crate) fn dispatch(&self, more: &[&str]) -> crate::support::Output {
        let url = self.gateway.url();
        self.client.run(&Self::args(more, &url))
    }

    /// Dispatches as Eval Protocol's client does: four inputs, nothing else.
    pub(crate) fn send(&self, inputs: &Value) -> u16 {
        let url =
            format!("{}/repos/{REPO}/actions/workflows/rollout.yml/dispatches", self.github.urls().api_url);
        let body = json!({"ref": "main", "inputs": inputs}).to_string();
        let auth = format!("Authorization: Bearer {TOKEN}");
        let output = Command::new("curl")
            .args([
                "-sS",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-X",
                "POST",
                "-H",
                &auth,
                "-d",
                "@-",
                &url,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .and_then(|mut child| {
                child.stdin.take().unwrap().write_all(body.as_bytes())?;
                child.wait_with_output()
            })
            .unwrap();
        String::from_utf8(output.stdout).unwrap().parse().unwrap()
    }

    /// The inputs of a rollout, with a key.
    pub(crate) fn inputs(&self, rollout_id: &str, row_id: &str) -> Value {
        json!({
            "completion_params": r#"{"model":"mock-model"}"#,
            "metadata": metadata(rollout_id, row_id).to_string(),
            "model_base_url": self.gateway.url(),
            "api_key": GATEWAY_TOKEN,
        })
    }

    /// How often the model was called.
    pub(crate) fn calls(&self) -> u64 {
        self.llm.counter("requests")
    }

    /// Checks that no key appears where it should not.
    pub(crate) fn no_key_is_shown(&self) {
        let shown = self.github.everything_shown();
        let logs: String = self
            .github
            .runs()
            .iter()
            .flat_map(|run| {
                run.jobs.iter().map(|job| format!("{}{}{:?}", job.log, job.summary, job.annotations))
            })
            .collect();
        for key in [GATEWAY_TOKEN, MODEL_KEY] {
            assert!(!logs.contains(key), "a key is in a log: {logs}");
            assert!(!self.gateway.files().contains(key), "a key is in a trace");
        }
        assert!(!shown.contains(MODEL_KEY));
    }
}

/// A client without a model API key.
pub(crate) fn client(github: &MockGithub) -> Workspace {
    let client = github.workspace(TOKEN).env("EP_REMOTE_API_KEY", GATEWAY_TOKEN);
    client.write(
        "targets.yaml",
        format!("targets:\n  - name: cloud\n    provider: github-actions\n    repo: {REPO}\n    workflow: rollout.yml\n    poll_interval: 1s\n    timeout: 60s\n"),
    );
    client
}

pub(crate) fn metadata(rollout_id: &str, row_id: &str) -> Value {
    json!({"invocation_id": "inv", "experiment_id": "exp", "rollout_id": rollout_id, "run_id": "run", "row_id": row_id})
}

pub(crate) fn template(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}
