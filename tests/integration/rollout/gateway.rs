//! The trace gateway, over its port.

use serde_json::{Value, json};

use super::stage::{GATEWAY_TOKEN, Gateway, MODEL_KEY};
use crate::support::{MockLlm, until};

const PATH: &str = "/rollout_id/late-life-832674/invocation_id/i/experiment_id/e/run_id/r/row_id/7";

fn question(text: &str) -> Value {
    json!({"model": "mock-model", "messages": [{"role": "user", "content": text}]})
}

fn start() -> (MockLlm, Gateway) {
    let llm = MockLlm::start(&["--require-key", MODEL_KEY]);
    let gateway = Gateway::start(&llm);
    (llm, gateway)
}

#[test]
fn a_call_is_forwarded_and_recorded_in_the_clients_format() {
    let (llm, gateway) = start();
    let (status, body) = gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(&question("hello")));
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["choices"][0]["message"]["content"], "hello");
    let traces = gateway.traces("late-life-832674");
    let [trace] = traces.as_slice() else { panic!("{traces:?}") };
    let tags = ["rollout_id:late-life-832674", "invocation_id:i", "experiment_id:e", "run_id:r", "row_id:7"];
    assert_eq!(trace["tags"], json!(tags));
    assert_eq!(trace["input"], json!({"messages": [{"role": "user", "content": "hello"}]}));
    assert_eq!(
        (&trace["output"]["role"], &trace["output"]["content"]),
        (&json!("assistant"), &json!("hello"))
    );
    assert_eq!(llm.counter("ok"), 1);
    assert_eq!(gateway.traces("another"), Vec::<Value>::new());
}

#[test]
fn a_worker_reports_its_status() {
    let (_llm, gateway) = start();
    let log = |code: i64, message: &str| {
        let body = json!({
            "program": "eval_protocol",
            "status": {"code": code, "message": message, "details": []},
            "message": message,
            "tags": ["rollout_id:r1", "experiment_id:e"],
            "extras": {"level": "INFO", "attempt": 1},
        });
        let (status, answer) = gateway.ask("POST", "/logs", Some(&body));
        assert_eq!(status, 200, "{answer}");
    };
    assert_eq!(
        gateway.get("/v1/status?rollout_id=r1"),
        json!({"rollout_id": "r1", "status": null, "extras": null})
    );
    log(101, "running");
    assert_eq!(gateway.code("r1"), Some(101));
    log(13, "the model is broken");
    assert_eq!(gateway.code("r1"), Some(13));
    log(101, "again");
    log(100, "done");
    log(101, "a second run");
    assert_eq!(
        gateway.get("/status?rollout_id=r1")["status"],
        json!({"code": 100}),
        "what is finished stays so"
    );
    let logs = gateway
        .get("/v1/logs?tags=rollout_id:r1&tags=experiment_id:e&limit=2&hours_back=24&program=eval_protocol");
    let messages: Vec<&str> =
        logs["entries"].as_array().unwrap().iter().map(|entry| entry["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["a second run", "done"]);
    assert_eq!(logs["entries"][1]["status"]["code"], 100);
    assert_eq!(logs["entries"][1]["extras"]["attempt"], 1);
}

#[test]
fn every_route_needs_the_token() {
    let (llm, gateway) = start();
    let body = question("hello").to_string();
    let asked = [
        ("POST", format!("{PATH}/chat/completions")),
        ("GET", "/v1/traces/pointwise?tags=rollout_id:a".to_owned()),
        ("GET", "/logs?tags=rollout_id:a".to_owned()),
        ("POST", "/logs".to_owned()),
        ("GET", "/status?rollout_id=a".to_owned()),
    ];
    for (method, path) in &asked {
        for token in [None, Some("wrong-token-wrong-token-wrong-token")] {
            let (status, _) = gateway.ask_as(token, method, path, Some(&body));
            assert!(status == 401 || status == 429, "{method} {path}: {status}");
        }
    }
    assert_eq!(llm.counter("requests"), 0);
}

#[test]
fn a_client_cannot_name_another_host() {
    let (llm, gateway) = start();
    let evil = MockLlm::start(&[]);
    let encoded = |url: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::URL_SAFE.encode(url)
    };
    let own = llm.base_url();
    for url in [
        evil.base_url(),
        own.replace("/v1", ""),
        own.replace("127.0.0.1", "localhost"),
        own.replace("http://", "http://user@"),
        format!("{own}?x=1"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let path = format!("{PATH}/encoded_base_url/{}/chat/completions", encoded(&url));
        let (status, body) = gateway.ask("POST", &path, Some(&question("x")));
        assert_eq!(status, 403, "{url}: {body}");
    }
    let (status, body) =
        gateway.ask("POST", &format!("{PATH}/encoded_base_url/!/chat/completions"), Some(&question("x")));
    assert_eq!((status, body.contains("encoded_base_url")), (400, true), "{body}");
    assert_eq!((llm.counter("requests"), evil.counter("requests")), (0, 0));
    let path = format!("{PATH}/encoded_base_url/{}/chat/completions", encoded(&format!("{own}/")));
    assert_eq!(gateway.ask("POST", &path, Some(&question("x"))).0, 200, "its own upstream may be named");
}

#[test]
fn a_redirect_is_not_followed() {
    let llm = MockLlm::start(&["--require-key", MODEL_KEY]);
    let to = format!("{}/chat/completions", llm.base_url());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            use std::io::{Read as _, Write as _};
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 307 Moved\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
    });
    let gateway = Gateway::start_with(&base, "");
    let (status, body) = gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(&question("x")));
    assert_eq!((status, body.contains("redirects are not followed")), (502, true), "{body}");
    assert_eq!(llm.counter("requests"), 0);
}

#[test]
fn traces_survive_a_crash_in_the_middle_of_a_line() {
    let (_llm, mut gateway) = start();
    gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(&question("one")));
    let file = walkdir::WalkDir::new(gateway.workspace.path("traces"))
        .into_iter()
        .map(Result::unwrap)
        .find(|entry| entry.file_type().is_file())
        .unwrap();
    let whole = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    gateway.crash_and_restart();
    gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(&question("two")));
    let asked: Vec<String> = gateway
        .traces("late-life-832674")
        .iter()
        .map(|trace| trace["input"]["messages"][0]["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(asked, ["one", "two"]);
}

#[test]
fn keys_are_never_recorded() {
    let (_llm, gateway) = start();
    let text = format!("my key is {MODEL_KEY}, and the token {GATEWAY_TOKEN}");
    let (status, _) = gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(&question(&text)));
    assert_eq!(status, 200);
    let body = json!({"message": text, "tags": ["rollout_id:late-life-832674"], "status": {"code": 13, "message": text}});
    gateway.ask("POST", "/logs", Some(&body));
    let files = gateway.files();
    assert!(
        files.contains("my key is ***") && !files.contains(MODEL_KEY) && !files.contains(GATEWAY_TOKEN),
        "{files}"
    );
}

#[test]
fn a_stream_is_forwarded_and_recorded_completely() {
    let (_llm, gateway) = start();
    let mut body = question("in pieces");
    body["stream"] = true.into();
    body["stream_options"] = json!({"include_usage": true});
    let (status, text) = gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(&body));
    assert_eq!(status, 200, "{text}");
    let events: Vec<&str> = text.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let first: Value = serde_json::from_str(events[0]).unwrap();
    assert_eq!(first["choices"][0]["delta"]["content"], "in pieces");
    assert!(events.iter().any(|event| event.contains("\"usage\":{")), "{text}");
    assert_eq!(gateway.traces("late-life-832674")[0]["output"]["content"], "in pieces");
}

#[test]
fn models_outside_the_allowlist_are_not_called() {
    let llm = MockLlm::start(&["--require-key", MODEL_KEY]);
    let gateway = Gateway::start_with(&llm.base_url(), "allow_models: [other]\n");
    let call = |body: &Value| gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(body));
    let mut body = question("x");
    assert_eq!(call(&body).0, 200);
    body["model"] = "other".into();
    assert_eq!(call(&body).0, 200);
    body["model"] = "expensive".into();
    let (status, text) = call(&body);
    assert_eq!((status, text.contains("does not allow the model `expensive`")), (403, true), "{text}");
    assert_eq!(call(&json!({"model": "mock-model"})).0, 400, "no messages");
    assert_eq!(
        gateway.ask_as(Some(GATEWAY_TOKEN), "POST", &format!("{PATH}/chat/completions"), Some("{")).0,
        400
    );
    assert_eq!(
        gateway.ask("POST", "/rollout_id/a/chat/completions", Some(&question("x"))).0,
        400,
        "ids are missing"
    );
    assert_eq!(gateway.ask("POST", &format!("{PATH}/embeddings"), Some(&question("x"))).0, 404);
    assert_eq!(gateway.ask("GET", "/v1/traces/pointwise?tags=production", None).0, 400);
    assert_eq!(llm.counter("requests"), 2);
}

/// A client that disconnects and repeats the request gets the answer that was already paid for.
#[test]
fn an_undelivered_answer_is_not_paid_for_twice() {
    use std::io::Write as _;
    let llm = MockLlm::start(&["--require-key", MODEL_KEY, "--latency-ms", "1500"]);
    let gateway = Gateway::start(&llm);
    let body = question("slow").to_string();
    let mut stream = std::net::TcpStream::connect(
        gateway.url().trim_start_matches("http://").replace("localhost", "127.0.0.1"),
    )
    .unwrap();
    write!(
        stream,
        "POST {PATH}/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {GATEWAY_TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    until("the call", || llm.counter("requests") == 1);
    drop(stream);
    // The call continues without a client, and is recorded.
    until("the record", || gateway.traces("late-life-832674").len() == 1);
    let (status, answer) = gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(&question("slow")));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(llm.counter("requests"), 1, "it was called twice");
    assert_eq!(gateway.ask("POST", &format!("{PATH}/chat/completions"), Some(&question("slow"))).0, 200);
    assert_eq!(llm.counter("requests"), 2, "a sample that was delivered is not delivered again");
    assert_eq!(gateway.traces("late-life-832674").len(), 2);
}

/// The only file that the gateway has written.
fn trace_file(gateway: &Gateway) -> std::path::PathBuf {
    let files = walkdir::WalkDir::new(gateway.workspace.path("traces")).into_iter().map(Result::unwrap);
    files.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path).next().unwrap()
}

#[test]
fn a_call_that_cannot_be_recorded_is_not_made() {
    let (llm, gateway) = start();
    let call = |id: &str| {
        let path = PATH.replace("late-life-832674", id);
        gateway.ask("POST", &format!("{path}/chat/completions"), Some(&question("x")))
    };
    assert_eq!((call("full").0, llm.counter("requests")), (200, 1));
    let file = std::fs::OpenOptions::new().write(true).open(trace_file(&gateway)).unwrap();
    file.set_len(32 << 20).unwrap();
    let (status, body) = call("full");
    assert_eq!((status, llm.counter("requests")), (413, 1), "{body}");
    assert!(body.contains("the rollout has more than 32 MiB of traces"), "{body}");

    // No folder can be created where a file exists; the date may change meanwhile.
    std::fs::remove_dir_all(gateway.workspace.path("traces")).unwrap();
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    for day in [today, today.tomorrow().unwrap()] {
        gateway.workspace.write(&format!("traces/{day}"), "in the way");
    }
    let (status, body) = call("new");
    assert_eq!((status, llm.counter("requests")), (500, 1), "{body}");
}

#[test]
fn no_token_is_recorded_and_other_users_cannot_read_the_traces() {
    use std::os::unix::fs::PermissionsExt as _;
    const TOKENS: [&str; 4] = [
        "first-token-first-token-first-token",
        "second-token-second-token-second-token",
        "third-token-third-token-third-token",
        "later-token-later-token-later-token",
    ];
    let [first, second, third, later] = TOKENS;
    let llm = MockLlm::start(&["--require-key", MODEL_KEY]);
    let files = [("tokens", &*format!("{first}\n{second}\n")), ("more", third)];
    let options = ["--auth-token-file", "tokens", "--traces-token-file", "more"];
    let gateway = Gateway::start_with_files(&llm, &files, &options);
    let text = TOKENS.join(" and ");
    let say = |text: &str| {
        let body = question(text).to_string();
        let path = format!("{PATH}/chat/completions");
        assert_eq!(gateway.ask_as(Some(first), "POST", &path, Some(&body)).0, 200);
        let entry = json!({"message": text, "tags": ["rollout_id:late-life-832674"]}).to_string();
        assert_eq!(gateway.ask_as(Some(third), "POST", "/logs", Some(&entry)).0, 200);
    };
    say(&text.replace(later, "-"));
    gateway.workspace.write_private("tokens", &format!("{first}\n{later}\n"));
    gateway.reload();
    let path = "/status?rollout_id=a";
    until("the new token", || gateway.ask_as(Some(later), "GET", path, None).0 == 200);
    say(&text);
    let written = gateway.files();
    assert!(written.contains("*** and *** and *** and ***"), "{written}");
    for token in TOKENS {
        assert!(!written.contains(token), "{token}: {written}");
    }
    let file = trace_file(&gateway);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let day = file.parent().unwrap();
    assert_eq!([mode(&file), mode(day), mode(day.parent().unwrap())], [0o600, 0o700, 0o700]);
}

#[test]
fn a_trace_token_opens_only_the_gateway() {
    let (ours, theirs) = ("service-token-service-token-service", "traces-token-traces-token-traces-token");
    let llm = MockLlm::start(&["--require-key", MODEL_KEY]);
    let files = [("tokens", ours), ("more", theirs)];
    let options = ["--auth-token-file", "tokens", "--traces-token-file", "more"];
    let gateway = Gateway::start_with_files(&llm, &files, &options);
    let status = |token: &str, path: &str| gateway.ask_as(Some(token), "GET", path, None).0;
    assert_eq!((status(theirs, "/status?rollout_id=a"), status(ours, "/status?rollout_id=a")), (200, 200));
    assert_eq!((status(theirs, "/jobs"), status(ours, "/jobs")), (401, 200));
    // A gateway on its own has no pages.
    for path in ["/studio", "/studio/login", "/"] {
        assert_eq!(status(ours, path), 404, "{path}");
    }
    // It needs no other token either.
    let gateway = Gateway::start_with_files(&llm, &files[1..], &options[2..]);
    let status = |path: &str| gateway.ask_as(Some(theirs), "GET", path, None).0;
    assert_eq!((status("/status?rollout_id=a"), status("/jobs")), (200, 401));
}
