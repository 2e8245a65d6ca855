//! The worker on GitHub Enterprise Server, with a tracing endpoint whose certificate is of a private CA.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;

use super::stage::{GATEWAY_TOKEN, Gateway, REPO, metadata, template};
use crate::support::github::{MockGithub, NewRepo, TOKEN};
use crate::support::{MockLlm, Workspace};

#[test]
fn the_worker_trusts_the_ca_of_its_step() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let llm = MockLlm::start(&[]);
    let files =
        [("tokens", GATEWAY_TOKEN), ("cert.pem", &cert.pem()), ("key.pem", &signing_key.serialize_pem())];
    let tls = ["--auth-token-file", "tokens", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let gateway = Gateway::start_with_files(&llm, &files, &tls);
    let url = gateway.url().replace("http://", "https://");

    let github = MockGithub::start_with(&["--tls", "--runner", env!("CARGO_BIN_EXE_run-evals")]);
    github.repo(&NewRepo { full_name: REPO.to_owned(), private: true, ..NewRepo::default() });
    github.token(TOKEN, "worker", REPO, &[("contents", "read")]);
    github.put_file(REPO, ".run-evals.yml", format!("rollout:\n  model_base_urls: ['{url}']\n"));
    let server_ca = std::fs::read_to_string(github.urls().ca_file.clone().unwrap()).unwrap();

    let worker = Workspace::new()
        .env("GITHUB_SERVER_URL", &github.urls().server_url)
        .env("GITHUB_REPOSITORY", REPO)
        .env("GITHUB_TOKEN", TOKEN)
        .env("ROLLOUT_API_KEY", GATEWAY_TOKEN);
    worker.write("rows.jsonl", template("fixtures/rollout/rows.jsonl"));
    let event = worker.path("event.json");
    let worker = worker.env("GITHUB_EVENT_PATH", event.to_str().unwrap());
    let inputs = json!({
        "completion_params": r#"{"model":"mock-model"}"#,
        "metadata": metadata("r1", "france").to_string(),
        "model_base_url": url,
        "api_key": "",
    });
    worker.write("event.json", json!({"inputs": inputs, "sender": {"login": "ann"}}).to_string());
    let run = ["rollout", "run", "--dataset", "rows.jsonl"];

    let untrusted = worker.run(&run).expect(1);
    assert!(untrusted.stderr.contains("certificate"), "{}", untrusted.stderr);
    worker.write("github.pem", &server_ca);
    let half = worker.run(&[&run[..], &["--ca-file", "github.pem"]].concat()).expect(1);
    assert!(half.stderr.contains("certificate"), "{}", half.stderr);
    assert_eq!(llm.counter("requests"), 0);

    worker.write("all.pem", format!("{server_ca}\n{}", cert.pem()));
    let trusted = worker.run(&[&run[..], &["--ca-file", "all.pem"]].concat()).expect(0);
    assert!(trusted.stdout.contains("r1 (row france): 1 answer"), "{}", trusted.stdout);
    assert_eq!(llm.counter("requests"), 1);

    // As a variable, where a step has no checkout.
    let worker = worker.env("RUN_EVALS_CA", &format!("{server_ca}\n{}", cert.pem()));
    let again = worker.run(&run).expect(0);
    assert!(again.stdout.contains("finished before"), "{}", again.stdout);
}
