//! No key in any file, log or error.

use crate::support::{MockLlm, Workspace};

const KEY: &str = "sk-fake-0123456789abcdefSECRET";

/// Every file below a directory, git objects unpacked by git itself.
fn everything_written(workspace: &Workspace) -> Vec<(String, Vec<u8>)> {
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
fn the_key_reaches_the_vendor_and_nothing_else() {
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
fn a_vendor_that_quotes_the_key_in_its_complaint_is_redacted() {
    // The server quotes the key that it was given.
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
    // The batch itself holds what the author wrote, so only the rest is searched.
    let request =
        serde_json::json!({"id": "r0", "messages": [{"role": "user", "content": format!("say {KEY}")}]});
    workspace.write("requests.jsonl", format!("{request}\n"));
    workspace.dispatch(&[]).expect(0);
    let rows = workspace.rows("out/responses.jsonl");
    assert_eq!(rows[0]["output"][0]["content"], "say ***");
    assert!(!workspace.read("out/responses.jsonl").contains(KEY));
}

#[test]
fn a_key_of_digits_spoils_no_row() {
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
fn errors_of_the_configuration_do_not_show_the_key() {
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
