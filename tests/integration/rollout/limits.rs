//! Requests that the owner does not allow, and untrusted endpoints: no call is made, and no key is sent.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::stage::{GATEWAY_TOKEN, REPO, Stage, metadata, template};
use crate::support::github::{RunView, What, When};
use crate::support::until;

pub(super) fn exit_code(run: &RunView) -> Option<i32> {
    run.jobs.last().and_then(|job| job.exit_code)
}

/// The run of a rollout, once it is complete.
pub(super) fn run_of(stage: &Stage, rollout_id: &str) -> RunView {
    let title = format!("rollout:{rollout_id}");
    let is_over = |runs: &[RunView]| runs.iter().any(|run| run.title == title && run.status == "completed");
    stage.github.until(is_over).into_iter().find(|run| run.title == title).unwrap()
}

pub(super) fn log(run: &RunView) -> &str {
    &run.jobs[0].log
}

/// A policy that lists the gateway and sets a limit.
fn limit(stage: &Stage, more: &str) {
    let url = stage.gateway.url();
    stage.github.put_file(
        REPO,
        ".run-evals.yml",
        format!("rollout:\n  model_base_urls: ['{url}']\n{more}\n"),
    );
}

/// A host chosen by a client: it responds as it likes and records what it receives.
pub(super) struct Host {
    port: u16,
    received: Arc<Mutex<Vec<String>>>,
}

impl Host {
    /// Its responses depend on the first line of a request.
    pub(super) fn start(answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> Self {
        Self::start_reading(move |line, _| answer(line))
    }

    /// It answers by the first line of a request and its body.
    pub(super) fn start_reading(answer: impl Fn(&str, &str) -> (u16, Value) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = Arc::clone(&received);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let request = read_request(&mut stream);
                let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                let (status, body) = answer(request.lines().next().unwrap_or_default(), body);
                all.lock().unwrap().push(request);
                let body = body.to_string();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { port, received }
    }

    pub(super) fn url(&self) -> String {
        format!("http://localhost:{}", self.port)
    }

    pub(super) fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }
}

pub(super) fn read_request(stream: &mut TcpStream) -> String {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.trim().parse().unwrap()) {
                break;
            }
        }
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A step with its own key, under the name that OpenAI clients use.
#[test]
fn a_key_of_the_step_is_not_sent_to_a_host_named_by_the_client() {
    let stage = Stage::new();
    let call = r#"curl -sS -H "Authorization: Bearer ${OPENAI_API_KEY:-none}" -H "X-Other: ${FIREWORKS_API_KEY:-none} ${EP_REMOTE_API_KEY:-none}" -d {} "$OPENAI_BASE_URL/chat/completions""#;
    stage.github.put_file(REPO, "agent.sh", call);
    let step = "      - run: run-evals rollout run --command 'sh agent.sh'\n        env:\n          OPENAI_API_KEY: ${{ secrets.ROLLOUT_API_KEY }}\n          FIREWORKS_API_KEY: ${{ secrets.ROLLOUT_API_KEY }}\n          EP_REMOTE_API_KEY: ${{ secrets.ROLLOUT_API_KEY }}\n          GITHUB_TOKEN: ${{ github.token }}\n";
    let workflow = template("workflows/rollout.yml");
    let (head, _) = workflow.split_once("      # A tag, so that fixes").unwrap();
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", format!("{head}{step}"));
    let host = Host::start(|_| (200, json!({"traces": [{"input": {"messages": []}, "output": {}}]})));
    let mut inputs = stage.inputs("r1", "france");
    inputs["api_key"] = Value::Null;
    inputs["model_base_url"] = host.url().into();

    // Without an allowlist, a command calls no host at all.
    stage.github.put_file(REPO, ".run-evals.yml", "max_requests: 5\n");
    stage.send(&inputs);
    let run = run_of(&stage, "r1");
    assert_eq!(exit_code(&run), Some(3), "{}", log(&run));
    let said = "a command does not call `localhost`: no `model_base_url` is allowed for rollouts";
    assert!(log(&run).contains(said), "{}", log(&run));
    assert_eq!(host.received(), Vec::<String>::new());

    // With one, it gets only the keys that this program passes.
    stage.allow(&host.url());
    inputs["metadata"] = metadata("r2", "france").to_string().into();
    stage.send(&inputs);
    let run = run_of(&stage, "r2");
    assert_eq!(exit_code(&run), Some(0), "{}", log(&run));
    let received = host.received();
    let call = received.iter().find(|request| request.contains("/chat/completions")).unwrap();
    assert!(call.contains("Authorization: Bearer none") && call.contains("X-Other: none none"), "{call}");
    assert!(!received.concat().contains(GATEWAY_TOKEN));
}

#[test]
fn the_owners_limits_apply_to_rollouts() {
    let stage = Stage::new();
    let refused = |rollout_id: &str, policy: &str, inputs: Value| {
        limit(&stage, policy);
        stage.send(&inputs);
        let run = run_of(&stage, rollout_id);
        assert_eq!(exit_code(&run), Some(3), "{}", log(&run));
        assert_eq!(stage.calls(), 0);
        log(&run).to_owned()
    };
    let told = refused("r1", "allowed_models: [other-*]", stage.inputs("r1", "france"));
    assert!(told.contains("the model `mock-model` may not be used by rollouts"), "{told}");
    assert_eq!(stage.gateway.code("r1"), Some(7));
    assert_eq!(stage.gateway.message("r1"), "the model `mock-model` may not be used by rollouts");

    // A model cannot be hidden in the parameters, nor in one row of many.
    let mut hidden = stage.inputs("r2", "france");
    hidden["completion_params"] = r#"{"model":"mock-model","extra_body":{"model":"dear"}}"#.into();
    let told = refused("r2", "allowed_models: [mock-model]", hidden);
    assert!(told.contains("the model `dear` may not be used by rollouts"), "{told}");
    let mut batch = metadata("r3", "rows");
    batch["rows"] = json!([
        {"rollout_id": "r3-a", "row_id": "france"},
        {"rollout_id": "r3-b", "row_id": "primes", "completion_params": {"model": "dear"}},
    ]);
    let mut many = stage.inputs("r3", "rows");
    many["metadata"] = batch.to_string().into();
    let told = refused("r3", "allowed_models: [mock-model]", many.clone());
    assert!(told.contains("the model `dear` may not be used by rollouts"), "{told}");
    assert_eq!((stage.gateway.code("r3-a"), stage.gateway.code("r3-b")), (Some(7), Some(7)));

    batch["rows"][1] = json!({"rollout_id": "r4-b", "row_id": "primes"});
    batch["rollout_id"] = "r4".into();
    many["metadata"] = batch.to_string().into();
    let told = refused("r4", "max_requests: 1", many);
    assert!(told.contains("the rollouts of this run make 2 calls, and 1 are allowed"), "{told}");
    let told = refused("r5", "max_requests: 1", stage.inputs("r5", "apples"));
    assert!(told.contains("the rollouts of this run make 2 calls, and 1 are allowed"), "two turns: {told}");
    let told = refused("r6", "max_budget_usd: 1", stage.inputs("r6", "france"));
    assert!(told.contains("`max_budget_usd` of the policy cannot be enforced for rollouts"), "{told}");
    let told = refused("r8", "keyless: required", stage.inputs("r8", "france"));
    assert!(told.contains("rollouts call with a static key, and `keyless: required`"), "{told}");

    // Rollouts within the limits run.
    limit(&stage, "allowed_models: [mock-*]\nmax_requests: 2");
    stage.send(&stage.inputs("r7", "apples"));
    let run = run_of(&stage, "r7");
    assert_eq!((exit_code(&run), stage.calls()), (Some(0), 2), "{}", log(&run));
}

#[test]
fn a_status_without_traces_is_not_trusted() {
    let stage = Stage::new();
    let done =
        json!({"tags": ["rollout_id:r1"], "status": {"code": 100, "message": "done"}, "message": "done"});
    assert_eq!(stage.gateway.ask("POST", "/logs", Some(&done)).0, 200);
    stage.send(&stage.inputs("r1", "france"));
    let run = run_of(&stage, "r1");
    assert_eq!((exit_code(&run), stage.calls()), (Some(0), 1), "{}", log(&run));
    assert_eq!(stage.gateway.traces("r1").len(), 1);
}

#[test]
fn an_endpoint_without_status_and_traces_is_not_called() {
    let stage = Stage::new();
    let host = Host::start(|line| {
        let answer =
            json!({"choices": [{"message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}]});
        if line.contains("/chat/completions") {
            (200, answer)
        } else {
            (404, json!({"detail": "nothing here"}))
        }
    });
    stage.allow(&host.url());
    let mut inputs = stage.inputs("r1", "france");
    inputs["model_base_url"] = host.url().into();
    stage.send(&inputs);
    let run = run_of(&stage, "r1");
    assert_eq!(exit_code(&run), Some(1), "{}", log(&run));
    assert!(log(&run).contains("neither the status nor the traces of a rollout"), "{}", log(&run));
    let received = host.received();
    assert!(
        !received.is_empty() && received.iter().all(|request| !request.contains("/chat/completions")),
        "{received:?}"
    );
}

#[test]
fn a_row_with_an_image_is_not_paid_for_twice() {
    let stage = Stage::with_llm(&["--latency-ms", "600"]);
    let workflow = template("workflows/rollout.yml").replace("rollouts/rows.jsonl", "evals/EVAL.yaml");
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", workflow);
    let suite = "tests:\n  - id: seen\n    criteria: sees\n    input:\n      - role: user\n        content:\n          - type: image\n            value: dot.gif\n          - type: text\n            value: What is it?\n";
    stage.github.put_file(REPO, "evals/EVAL.yaml", suite);
    stage.github.put_file(REPO, "evals/dot.gif", "GIF89a\u{1}\0\u{1}\0\0\0\0;");
    let counter =
        When::Counter { url: stage.llm.counters_url(), pointer: "/requests".to_owned(), at_least: 1 };
    stage.github.fault(What::JobKilled { shard: None, when: counter, machine_lost: true });
    stage.send(&stage.inputs("r1", "seen"));
    let run = run_of(&stage, "r1");
    assert_eq!(run.conclusion.as_deref(), Some("failure"), "{}", log(&run));
    until("the trace", || stage.gateway.traces("r1").len() == 1);
    stage.send(&stage.inputs("r1", "seen"));
    let runs = stage.github.until(|runs| matches!(runs, [_, run] if run.status == "completed"));
    assert!(log(&runs[1]).contains("1 answer, 1 of them from an earlier run"), "{}", log(&runs[1]));
    assert_eq!(stage.calls(), 1, "it was paid for twice");
}
