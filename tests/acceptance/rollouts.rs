//! Eval Protocol's own client, unmodified, against a simulated api.github.com. The workflow runs under act, with our
//! container; the traces come from our gateway. Then the same rows with our client.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use axum_server::tls_rustls::RustlsConfig;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::Value;

use crate::docker::from_ci;
use crate::rollout_stage::{GATEWAY_TOKEN, MODEL_KEY, REPO, Stage, template};
use crate::support::github::{MockGithub, RunView, TOKEN};
use crate::support::{Output, Workspace};

const POLL_SECONDS: &str = "2";
/// How long their client sleeps before and after it looks for a run, whatever the load.
const THEY_SLEEP: f64 = 15.0;
/// Durations are compared, so these tests run one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn the_official_client_and_ours_with_the_same_rows() {
    let executor = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acceptance/run-act");
    compare(MockGithub::start_with(&["--executor", executor.to_str().unwrap()]), true);
}

/// A worker of the published shape, which is not ours, runs under act for our client.
#[test]
fn a_published_worker_serves_our_client_under_act() {
    let executor = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acceptance/run-act");
    let stage = Stage::on(MockGithub::start_with(&["--executor", executor.to_str().unwrap()]), &[]);
    for (path, name) in [(".github/workflows/rollout.yml", "rollout.yml"), ("worker.py", "worker.py")] {
        stage.github.put_file(REPO, path, template(&format!("fixtures/rollout/published/{name}")));
    }
    stage.client.write("rows.jsonl", "{\"messages\": [], \"input_metadata\": {\"row_id\": \"0\"}}\n");
    stage.dispatch(&["--send-key"]).expect(0);
    let run = stage.github.finished_run();
    let log: String = run.jobs.iter().map(|job| job.log.as_str()).collect();
    assert!(log.contains("python3 worker.py") && log.contains("Job succeeded"), "{log}");
    assert!(!log.contains("agentv/run-evals"), "it knows nothing of ours: {log}");
    let [row] = &stage.client.rows("out.jsonl")[..] else { panic!("one row") };
    assert_eq!(row["rollout_status"]["code"], 100, "{row}");
    assert_eq!(row["messages"][1]["content"], "Name a color.");
    assert_eq!(stage.calls(), 1);
}

/// The same with runs that take no time: only the time of the clients remains.
#[test]
fn the_official_client_and_ours_where_runs_are_quick() {
    compare(MockGithub::start(), false);
}

fn compare(github: MockGithub, is_act: bool) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let stage = Stage::on(github, &[]);
    let theirs = official_client(&stage);
    stage.no_key_is_shown();
    if is_act {
        for run in stage.github.runs() {
            let log: String = run.jobs.iter().map(|job| job.log.as_str()).collect();
            assert!(log.contains("agentv/run-evals@v1") && log.contains("Job succeeded"), "{log}");
        }
    }
    let their_runs = stage.github.runs();
    let ours = our_client(&stage, "1", &[]);
    same_inputs(&stage, &their_runs);
    let batched = our_client(&stage, "batched", &["--batch"]);
    let kind = if is_act { "under act" } else { "on quick machines" };
    eprintln!(
        "3 rollouts {kind}: Eval Protocol's client {} API requests in {:.1} s; rollout dispatch {} in {:.1} s ({:.2}, {:.2} of it); with --batch {} in {:.1} s",
        theirs.requests,
        theirs.seconds,
        ours.requests,
        ours.seconds,
        f64::from(ours.requests) / f64::from(theirs.requests),
        ours.seconds / theirs.seconds,
        batched.requests,
        batched.seconds,
    );
    assert!(ours.requests * 2 <= theirs.requests, "more than half of the API requests");
    // Compared with the time that their client always sleeps: the load of the machine does not matter.
    assert!(theirs.seconds >= THEY_SLEEP, "their client sleeps less than it did: {:.1} s", theirs.seconds);
    assert!(ours.seconds < THEY_SLEEP, "ours takes longer than theirs sleeps: {:.1} s", ours.seconds);
    assert_eq!(stage.calls(), 3 * 4, "four turns each time, and nothing twice");
    if is_act {
        a_hundred_rows_in_one_run(&stage);
    }
}

fn a_hundred_rows_in_one_run(stage: &Stage) {
    stage.rows(100);
    let (runs, calls, url) = (stage.github.runs().len(), stage.calls(), stage.gateway.url());
    let mut args = Stage::args(&["--batch"], &url);
    let at = args.iter().position(|arg| *arg == "out.jsonl").unwrap();
    args[at] = "hundred.jsonl";
    let began = Instant::now();
    // Requests are counted, so it polls as often as outside of tests.
    Output::of(stage.client.command(&args).env("RUN_EVALS_CLOCK_FACTOR", "1")).expect(0);
    let rows = stage.client.rows("hundred.jsonl");
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["rollout_status"]["code"], 100, "{row:#}");
        assert_eq!(row["messages"][1]["content"], format!("question {index}"));
    }
    assert_eq!((rows.len(), stage.github.runs().len() - runs, stage.calls() - calls), (100, 1, 100));
    eprintln!(
        "100 rollouts with --batch: one workflow run under act, {:.1} s",
        began.elapsed().as_secs_f64()
    );
}

/// The other parts of Eval Protocol that a worker and a client use: its logger, its status and its logs.
#[test]
fn the_official_logger_and_reader_agree_with_the_gateway() {
    let llm = crate::support::MockLlm::start(&["--require-key", MODEL_KEY]);
    let gateway = crate::rollout_stage::Gateway::start(&llm);
    let bin = PathBuf::from(from_ci("RUN_EVALS_EVAL_PROTOCOL"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acceptance/tracing_client.py");
    let workspace = Workspace::new();
    let mut command = Command::new(bin.join("python"));
    workspace.like(&mut command).arg(script).env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    command.env("FW_TRACING_GATEWAY_BASE_URL", gateway.url()).env("FIREWORKS_API_KEY", GATEWAY_TOKEN);
    let output = command.output().unwrap();
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("all as expected"), "{text}");
}

/// Both clients send the same inputs but for the ids, and the key that ours leaves out.
fn same_inputs(stage: &Stage, their_runs: &[RunView]) {
    let comparable = |runs: &[RunView]| -> Vec<(String, String, String)> {
        let mut all: Vec<_> = runs
            .iter()
            .map(|run| {
                let ids: Value = serde_json::from_str(&run.inputs["metadata"]).unwrap();
                let params: Value = serde_json::from_str(&run.inputs["completion_params"]).unwrap();
                let mut names: Vec<&String> = ids.as_object().unwrap().keys().collect();
                names.sort();
                let mut url = run.inputs["model_base_url"].clone();
                for (name, id) in ids.as_object().unwrap() {
                    let id = id.as_str().unwrap();
                    url = url.replace(&format!("/{name}/{id}"), &format!("/{name}/[{name}]"));
                }
                (ids["row_id"].as_str().unwrap().to_owned(), format!("{names:?} {params}"), url)
            })
            .collect();
        all.sort();
        all
    };
    let runs = stage.github.runs();
    let is_ours = |run: &&RunView| their_runs.iter().all(|theirs| theirs.id != run.id);
    let ours: Vec<RunView> = runs.iter().filter(is_ours).cloned().collect();
    assert_eq!(comparable(&ours), comparable(their_runs));
    assert!(comparable(&ours)[0].2.contains("/rollout_id/[rollout_id]/invocation_id/"), "{ours:#?}");
}

/// Eval Protocol's other processor, whose server is not ours: calls, status, logs and traces go through the gateway.
#[test]
fn the_official_remote_processor_is_traced_by_the_gateway() {
    let llm = crate::support::MockLlm::start(&["--require-key", MODEL_KEY]);
    let gateway = crate::rollout_stage::Gateway::start(&llm);
    let bin = PathBuf::from(from_ci("RUN_EVALS_EVAL_PROTOCOL"));
    let workspace = Workspace::new();
    workspace.write("test_remote.py", template("fixtures/rollout/test_remote.py"));
    let mut command = Command::new(bin.join("pytest"));
    workspace.like(&mut command).args(["-q", "-p", "no:cacheprovider", "test_remote.py"]);
    command
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .env("EP_MODEL_BASE_URL", gateway.url())
        .env("FW_TRACING_GATEWAY_BASE_URL", gateway.url())
        .env("FIREWORKS_API_KEY", GATEWAY_TOKEN)
        .env("ROLLOUT_MODEL", "mock-model");
    let output = command.output().unwrap();
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert_eq!(llm.counter("requests"), 1);
}

/// The duration of a client: from its first request to GitHub to its last output about the rows.
struct Taken {
    requests: u32,
    seconds: f64,
}

/// `fixtures/rollout/test_rollouts.py`, as docs/rollouts.md says, with only the address of api.github.com changed.
fn official_client(stage: &Stage) -> Taken {
    let bin = PathBuf::from(from_ci("RUN_EVALS_EVAL_PROTOCOL"));
    let workspace = Workspace::new();
    let proxy = Proxy::start(&stage.github.urls().api_url, &workspace.path("ca.pem"));
    for name in ["rows.jsonl", "test_rollouts.py"] {
        workspace.write(name, template(&format!("fixtures/rollout/{name}")));
    }
    let before = stage.github.requests().len();
    let mut command = Command::new(bin.join("pytest"));
    workspace.like(&mut command).args(["-q", "-p", "no:cacheprovider", "test_rollouts.py"]);
    command
        .env("HTTPS_PROXY", format!("http://127.0.0.1:{}", proxy.port))
        .env("REQUESTS_CA_BUNDLE", workspace.path("ca.pem"))
        .env("NO_PROXY", "localhost,127.0.0.1")
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .env("EP_MODEL_BASE_URL", stage.gateway.url())
        .env("FIREWORKS_API_KEY", GATEWAY_TOKEN)
        .env("GITHUB_TOKEN", TOKEN)
        .env("ROLLOUT_REPOSITORY", REPO)
        .env("ROLLOUT_MODEL", "mock-model")
        .env("ROLLOUT_POLL_INTERVAL", POLL_SECONDS)
        .env("ROLLOUT_RESULTS", workspace.path("results.jsonl"));
    let output = command.output().unwrap();
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{:#?}", stage.github.runs());
    let mut rows = workspace.rows("results.jsonl");
    rows.sort_by_key(|row| row["input_metadata"]["row_id"].as_str().unwrap().to_owned());
    check_rows(&rows);
    let requests = stage.github.requests().split_off(before);
    let own: Vec<_> = requests.iter().filter(|request| request.login == "client").collect();
    let (first, last) = (own.first().unwrap().at_ms, own.last().unwrap().at_ms);
    Taken {
        requests: u32::try_from(own.len()).unwrap(),
        seconds: Duration::from_millis(last - first).as_secs_f64(),
    }
}

/// The same rows; the whole command is measured.
fn our_client(stage: &Stage, name: &str, more: &[&str]) -> Taken {
    let before = stage.github.requests().len();
    let targets = stage
        .client
        .read("targets.yaml")
        .replace("poll_interval: 1s", &format!("poll_interval: {POLL_SECONDS}s"));
    stage.client.write("targets.yaml", targets.replace("timeout: 60s", "timeout: 5m"));
    let output = format!("{name}.jsonl");
    let url = stage.gateway.url();
    let mut args = Stage::args(more, &url);
    let at = args.iter().position(|arg| *arg == "out.jsonl").unwrap();
    args[at] = &output;
    let began = Instant::now();
    // Requests are counted, so it polls as often as outside of tests.
    Output::of(stage.client.command(&args).env("RUN_EVALS_CLOCK_FACTOR", "1")).expect(0);
    let seconds = began.elapsed().as_secs_f64();
    let mut rows = stage.client.rows(&output);
    rows.sort_by_key(|row| row["input_metadata"]["row_id"].as_str().unwrap().to_owned());
    check_rows(&rows);
    let requests = stage.github.requests().split_off(before);
    let own = requests.iter().filter(|request| request.login == "client").count();
    Taken { requests: u32::try_from(own).unwrap(), seconds }
}

/// Checks the messages and the status of each row.
fn check_rows(rows: &[Value]) {
    let conversation = |row: &Value| -> Vec<String> {
        let messages = row["messages"].as_array().unwrap().iter();
        messages
            .map(|message| {
                format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap())
            })
            .collect()
    };
    let [apples, france, primes] = rows else { panic!("{rows:#?}") };
    for row in rows {
        assert_eq!(row["rollout_status"]["code"], 100, "{row:#}");
        let url = row["input_metadata"]["session_data"]["github_actions_run_url"].as_str().unwrap();
        assert!(url.contains("/actions/runs/"), "{url}");
        assert!(!row.to_string().contains(MODEL_KEY) && !row.to_string().contains(GATEWAY_TOKEN));
    }
    let question = "What is the capital of France?";
    assert_eq!(
        conversation(france),
        [
            "system: You answer in one word.".to_owned(),
            format!("user: {question}"),
            format!("assistant: {question}")
        ]
    );
    let question = "Name a prime number between 10 and 20.";
    assert_eq!(conversation(primes), [format!("user: {question}"), format!("assistant: {question}")]);
    let (one, two) = ("I have three apples and eat one. How many are left?", "And if I buy four more?");
    assert_eq!(
        conversation(apples),
        [
            format!("user: {one}"),
            format!("assistant: {one}"),
            format!("user: {two}"),
            format!("assistant: {two}")
        ]
    );
}

/// A proxy that accepts connections to api.github.com, terminates TLS with its own CA, and forwards to the simulated GitHub. It
/// rejects all other hosts.
struct Proxy {
    port: u16,
}

impl Proxy {
    fn start(api_url: &str, ca_file: &Path) -> Self {
        let tls_port = tls_end(api_url.to_owned(), ca_file);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || connect(stream, tls_port));
            }
        });
        Self { port }
    }
}

/// One connection through the proxy.
fn connect(mut client: TcpStream, tls_port: u16) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        if !matches!(client.read(&mut byte), Ok(1)) {
            return;
        }
        head.push(byte[0]);
    }
    if !head.starts_with(b"CONNECT api.github.com:443 ") {
        let _ =
            client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        return;
    }
    let mut server = TcpStream::connect(("127.0.0.1", tls_port)).unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let there = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(std::net::Shutdown::Write);
    let _ = there.join();
}

/// A server that is api.github.com for clients that trust this CA.
fn tls_end(api_url: String, ca_file: &Path) -> u16 {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "CA of the test");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(ca_file, ca.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["api.github.com".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &ca).unwrap();
    let (certificate, key) = (certificate.pem().into_bytes(), key.serialize_pem().into_bytes());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let config = RustlsConfig::from_pem(certificate, key).await.unwrap();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let router = Router::new()
                .fallback(move |request: Request| forward(client.clone(), api_url.clone(), request));
            ready.send(()).unwrap();
            axum_server::from_tcp_rustls(listener, config)
                .unwrap()
                .serve(router.into_make_service())
                .await
                .unwrap();
        });
    });
    is_ready.recv().unwrap();
    port
}

async fn forward(client: reqwest::Client, api_url: String, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = to_bytes(body, 1 << 20).await.unwrap();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut outgoing = client.request(parts.method, format!("{api_url}{path}")).body(body);
    for (name, value) in
        parts.headers.iter().filter(|(name, _)| !matches!(name.as_str(), "host" | "content-length"))
    {
        outgoing = outgoing.header(name, value);
    }
    let answer = outgoing.send().await.unwrap();
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut response = (status, Body::from(answer.bytes().await.unwrap())).into_response();
    for (name, value) in headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "transfer-encoding" | "content-length" | "connection"))
    {
        response.headers_mut().insert(name, value.clone());
    }
    response
}
