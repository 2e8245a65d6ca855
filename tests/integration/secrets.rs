//! No key in any file, log or error.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::json;

use crate::support::{MockLlm, Workspace};

const KEY: &str = "sk-fake-0123456789abcdefSECRET";
/// The most characters of a key that may be visible: the prefix that all keys of a provider share.
const VISIBLE_PREFIX: usize = 8;

/// The base URL of a provider that gives every call this answer.
fn vendor(status: u16, body: &serde_json::Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut line, mut length) = (String::new(), 0);
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let _ = reader.take(length).read_to_end(&mut Vec::new());
                let _ = stream.write_all(answer.as_bytes());
            });
        }
    });
    url
}

/// The workspace after a dispatch to this provider with [`KEY`], and what was printed.
fn dispatched_to(url: &str, exit: i32) -> (Workspace, String) {
    dispatched_with(KEY, url, exit)
}

/// The same with another key.
fn dispatched_with(key: &str, url: &str, exit: i32) -> (Workspace, String) {
    let workspace = Workspace::new().env("LLM_KEY", key);
    workspace.write_target(url, "api_key: ${{ LLM_KEY }}\nkeep_raw: true\nmax_retries: 0");
    workspace.write_requests(1);
    let output = workspace
        .run(&["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-vv"])
        .expect(exit);
    let printed = output.stdout + &output.stderr;
    (workspace, printed)
}

/// Asserts that no file and nothing printed contains the beginning of the key.
fn assert_no_part_of_the_key(workspace: &Workspace, printed: &str) {
    let printed = ("printed".to_owned(), printed.as_bytes().to_vec());
    for (name, bytes) in everything_written(workspace).into_iter().chain([printed]) {
        let found = memchr::memmem::find(&bytes, &KEY.as_bytes()[..VISIBLE_PREFIX]);
        let around = found.map(|at| String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 60)]));
        assert!(around.is_none(), "a part of the key is in {name}: {around:?}");
    }
}

/// Texts in which every length limit up to 2,000 cuts a key, each at other positions of the key.
fn long_texts() -> impl Iterator<Item = String> {
    let keys = format!("{KEY} ").repeat(2000 / KEY.len());
    (0..KEY.len()).step_by(3).map(move |before| "x".repeat(before) + &keys)
}

#[test]
fn a_key_is_redacted_where_the_length_limit_of_a_message_would_cut_it() {
    for message in long_texts() {
        let url = vendor(400, &json!({"error": {"message": message}}));
        let (workspace, printed) = dispatched_to(&url, 5);
        assert_no_part_of_the_key(&workspace, &printed);
    }
}

#[test]
fn a_key_is_redacted_where_the_length_limit_of_a_finish_reason_would_cut_it() {
    for reason in long_texts() {
        let choice = json!({"message": {"role": "assistant", "content": "x"}, "finish_reason": reason});
        let (workspace, printed) = dispatched_to(&vendor(200, &json!({"choices": [choice]})), 0);
        assert_no_part_of_the_key(&workspace, &printed);
    }
}

/// The key in encodings in which a provider may echo it.
fn encoded() -> Vec<String> {
    let mut forms = Vec::new();
    for before in ["", "u", "us", "user:", "x-access-token:"] {
        for after in ["", ":", "xy"] {
            let text = format!("{before}{KEY}{after}");
            forms.extend([STANDARD.encode(&text), STANDARD_NO_PAD.encode(&text)]);
            forms.extend([URL_SAFE.encode(&text), URL_SAFE_NO_PAD.encode(&text)]);
        }
    }
    forms
}

/// The middle of an encoded key: its first and last characters depend on the text around the key.
fn core(form: &str) -> &str {
    let text = form.trim_end_matches('=');
    &text[text.len() / 2 - 8..text.len() / 2 + 8]
}

#[test]
fn an_encoded_key_is_redacted_in_answers_and_errors() {
    let content = encoded().join(" ");
    let answer = json!({
        "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "note": content,
    });
    let error = json!({"error": {"message": content}});
    for (status, body, exit) in [(200, answer, 0), (400, error, 5)] {
        let (workspace, _) = dispatched_to(&vendor(status, &body), exit);
        let rows = workspace.read("out/responses.jsonl");
        for form in encoded() {
            assert!(!rows.contains(core(&form)), "{form}: {rows}");
        }
        assert!(rows.contains("***"), "{rows}");
    }
}

/// Text in lines of this many columns.
fn wrapped(text: &str, columns: usize, end: &str) -> String {
    let lines: Vec<&str> =
        text.as_bytes().chunks(columns).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join(end)
}

#[test]
fn a_key_is_redacted_in_hex_in_escapes_and_across_lines() {
    let key = "sk-fake!(01234/6789)*abcd+f'SECRET";
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = key.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let component = key.replace('/', "%2F").replace('+', "%2B");
    let mut forms = vec![
        hex.to_uppercase(),
        hex,
        percent.to_lowercase(),
        percent,
        component.replace("%2F", "%2f").replace("%2B", "%2b"),
        component,
    ];
    // The line break is at each position in the key once.
    for before in 20..60 {
        let encoded = STANDARD.encode(format!("{}{key} after it", "y".repeat(before)));
        forms.extend([
            wrapped(&encoded, 76, "\n"),
            wrapped(&encoded, 76, "\r\n"),
            wrapped(&encoded, 64, "\n  "),
        ]);
        // A JSON text inside the answer.
        forms.push(wrapped(&encoded, 76, "\\n"));
    }
    let content = forms.iter().map(|form| format!("<{form}>")).collect::<Vec<_>>().join(" ");
    let answer = json!({
        "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "note": content,
    });
    let error = json!({"error": {"message": forms[..6].join(" ")}});
    for (status, body, exit) in [(200, answer, 0), (400, error, 5)] {
        let (workspace, _) = dispatched_with(key, &vendor(status, &body), exit);
        for row in workspace.rows("out/responses.jsonl") {
            let text = match row["output"][0]["content"].as_str() {
                Some(content) => content.to_owned() + row["raw"]["note"].as_str().unwrap(),
                None => row["error"]["message"].as_str().unwrap().to_owned(),
            };
            assert!(text.contains("***"), "{text}");
            let joined = text.replace("\\n", "").replace(['\n', '\r', ' '], "");
            for form in &forms {
                let form = form.replace("\\n", "").replace(['\n', '\r', ' '], "");
                assert!(!joined.contains(&form), "{form}: {text}");
            }
            // The middle of the key in base64, at each of its three possible alignments.
            for before in 0..3 {
                let encoded = STANDARD_NO_PAD.encode(format!("{}{key}", "y".repeat(before)));
                assert!(!joined.contains(core(&encoded)), "{before}: {text}");
            }
        }
    }
}

#[test]
fn log_lines_have_no_colors() {
    let (_workspace, printed) = dispatched_to(&MockLlm::start(&[]).base_url(), 0);
    assert!(printed.contains("INFO") || printed.contains("DEBUG"), "{printed}");
    assert!(!printed.contains("u{1b}") && !printed.contains('\u{1b}'), "{printed}");
}

#[test]
fn no_variable_that_looks_like_a_secret_is_sent() {
    let value = "value-of-a-secret-0123456789";
    let names = [
        "GH_PAT",
        "OPENAI_API_KEY_2",
        "AWS_ACCESS_KEY_ID",
        "MY_CREDENTIALS",
        "SSH_PRIVATE_KEY_B64",
        "PGPASS",
        "DB_PASS",
        "MYSQL_PWD",
        "KEY_PASSPHRASE",
        "BASIC_AUTH",
        "AUTHTOKEN",
        "SECRET_FOR_TESTS",
    ];
    let values = [
        ("DATABASE_URL", "postgres://user:hunter22@db.example.com/x"),
        ("SETTING", "ghp_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"),
        ("OTHER", "-----BEGIN OPENSSH PRIVATE KEY-----"),
    ];
    for (name, value) in names.map(|name| (name, value)).into_iter().chain(values) {
        let workspace = Workspace::new().env(name, value);
        workspace.write("targets.yaml", "targets:\n  - {name: m, provider: mock, response: hi}\n");
        let suite = |text: &str| format!("tests:\n  - {{id: a, input: \"{text}\", criteria: x}}\n");
        workspace.write("s.eval.yaml", suite(&format!("say ${{{{ {name} }}}}")));
        let output =
            workspace.run(&["eval", "s.eval.yaml", "--target", "m", "--no-grade", "--output", "out"]);
        assert_eq!(output.code, Some(3), "{name}: {}", output.stderr);
        assert!(!output.stderr.contains(value), "{name}: {}", output.stderr);
        assert!(output.stderr.contains(&format!("`{name}` holds a key")), "{name}: {}", output.stderr);
        workspace.write_target(&format!("https://h.example/${{{{ {name} }}}}/v1"), "");
        workspace.write_requests(1);
        let output = workspace.dispatch(&[]);
        assert_eq!(output.code, Some(3), "{name}: {}", output.stderr);
        assert!(output.stderr.contains(&format!("`{name}` holds a key")), "{name}: {}", output.stderr);
    }
    for (name, value) in [
        ("MAX_TOKENS", "a-thousand-or-more"),
        ("MIN_PASS_RATE", "nearly-everything"),
        ("TOKEN_FILE", "some/place/of/mine"),
        ("AUTHOR", "somebody-or-other"),
        ("KEYBOARD", "with-many-letters"),
        ("SERVICE_URL", "https://db.example.com/x"),
        ("DATA_DIR", "/home/User1/projects/A-Long-Name-2026/data"),
    ] {
        let workspace = Workspace::new().env(name, value);
        workspace.write("targets.yaml", "targets:\n  - {name: m, provider: mock, response: hi}\n");
        workspace.write(
            "s.eval.yaml",
            format!("tests:\n  - {{id: a, input: \"say ${{{{ {name} }}}}\", criteria: x}}\n"),
        );
        workspace
            .run(&["eval", "s.eval.yaml", "--target", "m", "--no-grade", "--output", "out", "-q"])
            .expect(0);
        assert!(workspace.read("out/requests.jsonl").contains(value), "{name}");
    }
}

/// A workflow step whose target has [`KEY`], with its log in a file or in a pipe.
fn log_of_a_step(variables: &[(&str, &str)], is_file: bool) -> String {
    let mut workspace = Workspace::new().env("LLM_KEY", KEY);
    for (name, value) in variables {
        workspace = workspace.env(name, value);
    }
    workspace.write_target(&MockLlm::start(&[]).base_url(), "api_key: ${{ LLM_KEY }}");
    let mut command = workspace.command(&["doctor", "--offline"]);
    let log = workspace.path("log");
    if is_file {
        command.stderr(File::create(&log).unwrap()).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
        return std::fs::read_to_string(log).unwrap();
    }
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    stderr
}

#[test]
fn masks_are_printed_to_the_runner_and_not_to_a_log_file() {
    let step = [("GITHUB_ACTIONS", "true"), ("GITHUB_RUN_ID", "7")];
    let to_the_runner = log_of_a_step(&step, false);
    assert!(to_the_runner.contains(&format!("::add-mask::{KEY}\n")), "{to_the_runner}");
    let kept = log_of_a_step(&step, true);
    assert!(!kept.contains("add-mask") && !kept.contains(&KEY[..VISIBLE_PREFIX]), "{kept}");
}

#[test]
fn no_mask_is_printed_outside_a_workflow() {
    for variables in [&[][..], &[("GITHUB_ACTIONS", "true")], &[("GITHUB_RUN_ID", "7")]] {
        for is_file in [true, false] {
            let log = log_of_a_step(variables, is_file);
            assert!(
                !log.contains("add-mask") && !log.contains(&KEY[..VISIBLE_PREFIX]),
                "{variables:?}: {log}"
            );
        }
    }
}

#[test]
fn no_mask_is_printed_into_a_pipe_of_the_step() {
    let workspace =
        Workspace::new().env("LLM_KEY", KEY).env("GITHUB_ACTIONS", "true").env("GITHUB_RUN_ID", "7");
    workspace.write_target(&MockLlm::start(&[]).base_url(), "api_key: ${{ LLM_KEY }}");
    let binary = env!("CARGO_BIN_EXE_run-evals");
    for script in [
        format!("'{binary}' doctor --offline 2>&1 | tee log"),
        format!("kept=$('{binary}' doctor --offline 2>&1); echo \"$kept\" > log"),
    ] {
        let mut shell = std::process::Command::new("sh");
        let output = workspace.like(shell.args(["-c", &script])).output().unwrap();
        assert!(output.status.success());
        let log = workspace.read("log");
        assert!(log.contains("llm") && !log.contains("add-mask"), "{script}: {log}");
    }
}

/// The content of every file of a workspace, and of every object in its exchange.
pub(crate) fn everything_written(workspace: &Workspace) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(workspace.root()).into_iter().map(Result::unwrap) {
        if entry.file_type().is_file() && entry.file_name() != ".env" {
            found.push((entry.path().display().to_string(), std::fs::read(entry.path()).unwrap()));
        }
    }
    let exchange = workspace.path(".run-evals/exchange.git");
    if exchange.exists() {
        let script = "git cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)' | \
                      while read name type; do git cat-file \"$type\" \"$name\" | { gzip -dc 2>/dev/null || true; }; \
                      git cat-file \"$type\" \"$name\"; done";
        let output =
            std::process::Command::new("sh").args(["-c", script]).current_dir(exchange).output().unwrap();
        assert!(!output.stdout.is_empty());
        found.push(("git objects".to_owned(), output.stdout));
    }
    found
}

fn assert_no_key(workspace: &Workspace, printed: &[&str]) {
    let files = everything_written(workspace);
    let printed = printed.iter().map(|text| ("printed".to_owned(), text.as_bytes().to_vec()));
    for (name, bytes) in files.into_iter().chain(printed) {
        assert!(memchr::memmem::find(&bytes, KEY.as_bytes()).is_none(), "the key is in {name}");
    }
}

#[test]
fn the_key_reaches_only_the_provider() {
    let llm = MockLlm::start(&["--rate-5xx", "0.2", "--require-key", KEY]);
    let workspace = Workspace::new().env("LLM_KEY", &format!("{KEY}\n"));
    workspace.write_target(&llm.base_url(), "api_key: ${{ LLM_KEY }}\nkeep_raw: true\nmax_retries: 0");
    workspace.write_requests(40);
    let output = workspace
        .run(&["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-vv"])
        .expect(5);
    assert!(llm.counter("ok") > 10, "the vendor got the key");
    assert_no_key(&workspace, &[&output.stdout, &output.stderr]);
}

#[test]
fn a_key_quoted_in_a_provider_error_is_redacted() {
    // The server quotes the key that it received.
    let llm = MockLlm::start(&["--require-key", "another"]);
    let workspace = Workspace::new().env("LLM_KEY", KEY);
    workspace.write_target(&llm.base_url(), "api_key: ${{ LLM_KEY }}\nkeep_raw: true");
    workspace.write_requests(3);
    let output = workspace
        .run(&["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out", "-vv"])
        .expect(5);
    let rows = workspace.rows("out/responses.jsonl");
    let message = rows[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("***"), "{message}");
    assert_no_key(&workspace, &[&output.stdout, &output.stderr]);
}

#[test]
fn an_answer_that_contains_the_key_is_redacted() {
    let workspace = Workspace::new().env("LLM_KEY", KEY);
    let llm = MockLlm::start(&[]);
    workspace.write_target(&llm.base_url(), "api_key: ${{ LLM_KEY }}\nkeep_raw: true");
    // The batch itself has the author's text, so only the rest is searched.
    let request =
        serde_json::json!({"id": "r0", "messages": [{"role": "user", "content": format!("say {KEY}")}]});
    workspace.write("requests.jsonl", format!("{request}\n"));
    workspace.dispatch(&[]).expect(0);
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows[0]["output"][0]["content"], "say ***");
    assert!(!workspace.read("out/responses.jsonl").contains(KEY));
}

#[test]
fn a_numeric_key_does_not_corrupt_rows() {
    let key = "20261116";
    let workspace = Workspace::new().env("LLM_KEY", key);
    let llm = MockLlm::start(&[]);
    workspace.write_target(
        &llm.base_url(),
        &format!("api_key: ${{{{ LLM_KEY }}}}\nkeep_raw: true\nprice: {{ input_per_mtok: 0.{key}, output_per_mtok: 0 }}"),
    );
    let content = format!("\n{key} say\n{key}");
    let request =
        serde_json::json!({"id": format!("r-{key}"), "messages": [{"role": "user", "content": content}]});
    workspace.write("requests.jsonl", format!("{request}\n"));
    workspace.dispatch(&[]).expect(0);
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows[0]["id"], format!("r-{key}"), "the id is the batch's own word");
    assert_eq!(rows[0]["output"][0]["content"], "\n*** say\n***");
    assert!(!rows[0]["raw"].to_string().contains(key), "{}", rows[0]);
    assert!(rows[0]["cost_usd"].is_number(), "{}", rows[0]);
}

#[test]
fn configuration_errors_do_not_show_the_key() {
    for target in [
        format!("api_key: {KEY}"),
        format!("api_key: {KEY}\nmax_concurency: 3"),
        format!("api_ky: {KEY}"),
        "api_key: ${{ LLM_KEY }}".to_owned(),
        format!("base_url: http://user:{KEY}@127.0.0.1/v1\napi_key: ${{{{ LLM_KEY }}}}"),
    ] {
        let workspace = Workspace::new().env("LLM_KEY", &format!("{KEY}\u{7}x y"));
        workspace.write("targets.yaml", "");
        let lines: String = target.lines().map(|line| format!("    {line}\n")).collect();
        let base = if target.contains("base_url") { "" } else { "    base_url: http://127.0.0.1:1/v1\n" };
        let yaml =
            format!("targets:\n  - name: llm\n    provider: openai-compatible\n    model: m\n{base}{lines}");
        workspace.write("targets.yaml", &yaml);
        workspace.write_requests(1);
        let output = workspace.dispatch(&["-vv"]).expect(3);
        assert!(!output.stderr.contains(KEY) && !output.stdout.contains(KEY), "{}", output.stderr);
        assert!(!workspace.path(".run-evals/exchange.git/journal").exists(), "no call was made");
    }
}
