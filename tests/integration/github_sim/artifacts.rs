//! Artifacts: uploaded by a job, listed and served by the API.

use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::client::{Answer, Client};
use super::{REPO, Sim};
use crate::support::github::{Fault, What};

const HOLD: &str = r#"env > "$TEST_DIR/env.new"; mv "$TEST_DIR/env.new" "$TEST_DIR/env"
until [ -e "$TEST_DIR/go" ]; do sleep 0.02; done"#;

/// A job's side of the artifact service.
struct Job {
    url: String,
    client: Client,
    ids: (String, String),
}

impl Job {
    fn of(sim: &Sim) -> Self {
        sim.wait_for_file("env");
        let environment = sim.read("env");
        let value = |name: &str| {
            environment.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap().to_owned()
        };
        let (url, token) = (value("ACTIONS_RESULTS_URL"), value("ACTIONS_RUNTIME_TOKEN"));
        let payload = token.split('.').nth(1).unwrap();
        let claims =
            base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, payload).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        let scope = claims["scp"]
            .as_str()
            .unwrap()
            .split(' ')
            .find_map(|scope| scope.strip_prefix("Actions.Results:"))
            .unwrap();
        let (run, job) = scope.split_once(':').unwrap();
        Self { client: Client::new(&url, &token), url, ids: (run.to_owned(), job.to_owned()) }
    }

    fn call(&self, method: &str, mut body: Value) -> Answer {
        body["workflow_run_backend_id"] = json!(self.ids.0);
        body["workflow_job_run_backend_id"] = json!(self.ids.1);
        self.client
            .post(&format!("{}twirp/github.actions.results.api.v1.ArtifactService/{method}", self.url), &body)
    }

    /// The whole protocol, in two blocks.
    fn upload(&self, name: &str, content: &[u8]) -> Answer {
        let created = self
            .call("CreateArtifact", json!({ "name": name, "version": 7, "mime_type": "application/zip" }));
        if created.status != 200 {
            return created;
        }
        let url = created.json["signed_upload_url"].as_str().unwrap().to_owned();
        let plain = Client::new("", "");
        let put = |query: &str, body: &[u8]| {
            plain.send(Method::PUT, &format!("{url}&{query}"), &[], body.to_vec()).unwrap()
        };
        let (first, second) = content.split_at(content.len() / 2);
        assert_eq!(put("comp=block&blockid=MDE%3D", second).status, 201);
        assert_eq!(put("comp=block&blockid=MDA%3D", first).status, 201);
        assert_eq!(put("comp=block&blockid=MA%3D%3D%3D", first).status, 400, "ids are of one length");
        let list = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><Latest>MDA=</Latest><Latest>MDE=</Latest></BlockList>";
        assert_eq!(put("comp=blocklist", list.as_bytes()).status, 201);
        let hash = format!("sha256:{}", hex::encode(Sha256::digest(content)));
        self.call(
            "FinalizeArtifact",
            json!({ "name": name, "size": content.len().to_string(), "hash": hash }),
        )
    }
}

#[test]
fn an_artifact_of_a_job_is_served_to_tokens_with_read_access() {
    let sim = Sim::new(HOLD);
    let run = sim.dispatch("b1", 1);
    let job = Job::of(&sim);
    let content = b"not really a zip".as_slice();
    let finalized = job.upload("eval-results-b1-000-1-0001", content);
    assert_eq!((finalized.status, finalized.json["ok"].as_bool()), (200, Some(true)), "{}", finalized.text);
    assert_eq!(job.upload("eval-results-b1-000-1-0001", content).json["code"], "already_exists");
    assert_eq!(job.upload("eval-results/b1", content).json["code"], "invalid_argument");
    assert_eq!(job.call("FinalizeArtifact", json!({ "name": "none", "size": "1" })).status, 404);

    let listed = job.call("ListArtifacts", json!({ "name_filter": "eval-results-b1-000-1-0001" }));
    assert_eq!(listed.json["artifacts"][0]["size"], "16");
    let signed = job.call("GetSignedArtifactURL", json!({ "name": "eval-results-b1-000-1-0001" }));
    assert_eq!(Client::new("", "").get(signed.json["signed_url"].as_str().unwrap()).text.as_bytes(), content);

    // Before the run is complete.
    let list = sim.client().get(&format!("/repos/{REPO}/actions/runs/{run}/artifacts?per_page=100"));
    let artifact = &list.json["artifacts"][0];
    assert_eq!(artifact["digest"], format!("sha256:{}", hex::encode(Sha256::digest(content))));
    assert_eq!(artifact["id"].to_string(), finalized.json["artifact_id"].as_str().unwrap());
    let zip = format!("/repos/{REPO}/actions/artifacts/{}/zip", artifact["id"]);
    let redirect = sim.client().get(&zip);
    assert_eq!(redirect.status, 302);
    let location = &redirect.headers["location"];
    assert!(!location.starts_with(&sim.github.urls().api_url), "another host");
    assert_eq!(sim.client().get(location).status, 400, "with a token it is refused");
    assert_eq!(sim.client_of("").get(location).text.as_bytes(), content);
    assert_eq!(sim.client_of("").get(&location.replace("sig=", "sig=0")).status, 403);
    assert_eq!(sim.client_of("").get(&zip).status, 401);

    let expired =
        Fault { what: What::ArtifactExpired { name: "eval-results-".into() }, times: None, skip: 0 };
    sim.github.add_fault(&expired);
    assert_eq!(sim.client().get(&zip).message(), "410 Artifact has expired");
    assert_eq!(
        sim.client().get(&format!("/repos/{REPO}/actions/artifacts")).json["artifacts"][0]["expired"],
        true
    );
    sim.github.clear_faults();

    assert_eq!(sim.github.runs()[0].artifacts, ["eval-results-b1-000-1-0001"]);
    assert_eq!(job.call("DeleteArtifact", json!({ "name": "eval-results-b1-000-1-0001" })).status, 200);
    assert_eq!(sim.client().get(&zip).status, 404);
    assert_eq!(job.upload("eval-results-b1-000-1-0001", content).status, 200, "the name is free again");
    sim.write("go", "");
    sim.finished(run);
}

#[test]
fn the_artifact_service_accepts_only_its_own_tokens() {
    let sim = Sim::new(HOLD);
    let run = sim.dispatch("b1", 1);
    let mut job = Job::of(&sim);
    job.ids.1 = "another-job".to_owned();
    assert_eq!(job.call("ListArtifacts", json!({})).json["code"], "permission_denied");
    job.client = Client::new("", "a.b.c");
    assert_eq!(job.call("ListArtifacts", json!({})).json["code"], "unauthenticated");
    sim.write("go", "");
    sim.finished(run);
}

#[test]
fn a_bundle_archive_is_an_artifact_of_its_run() {
    let script = format!(
        r#"cd "$TEST_DIR"
printf 'name: demo\ntests:\n  - {{id: one, criteria: c, input: hello}}\n' > suite.yaml
printf 'targets:\n  - {{name: default, provider: mock}}\n' > targets.yaml
INPUT_SHARD= INPUT_MODE=bundle INPUT_SUITE=suite.yaml INPUT_OUTPUT=out/demo INPUT_ARCHIVE=true GITHUB_OUTPUT="$TEST_DIR/outputs" '{}' > log 2>&1
echo $? > done.new; mv done.new done"#,
        env!("CARGO_BIN_EXE_run-evals")
    );
    let sim = Sim::new(&script);
    let run = sim.dispatch("b1", 1);
    sim.wait_for_file("done");
    let log = sim.read("log");
    assert_eq!(sim.read("done").trim(), "0", "{log}");
    let list = sim.client().get(&format!("/repos/{REPO}/actions/runs/{run}/artifacts?per_page=100"));
    assert_eq!(list.json["artifacts"][0]["name"], "bundle-demo", "{log}");
    let outputs = sim.read("outputs");
    let digest = log.lines().find_map(|line| line.strip_prefix("sha256   ")).unwrap();
    assert!(outputs.contains("bundle-path") && outputs.contains("out/demo.tar.gz"), "{outputs}");
    assert!(outputs.contains("bundle-sha256") && outputs.contains(digest), "{outputs}");
}
