//! Skill evaluations from the push to the merged results, with only github.com simulated: two repositories over git's own protocol,
//! the service with TLS and a token, the templates as users copy them, run by act, our container, and a gateway that behaves like
//! MindRouter.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use run_evals::testing::Leaderboard;
use serde_json::{Value, json};

use crate::act::one_at_a_time;
use crate::evaluate::stage::{KEY, LIBRARY, SKILL, Stage, TOKEN};
use crate::support::Server;
use crate::support::github::{MockGithub, NewRepo, RunView};

/// The workflow's token for the service.
const SERVE_TOKEN: &str = "acceptance-7d3f0a91c5b84e26a0f1d2c3";
const TEMPLATES: [&str; 2] = ["evaluate.yml", "sweep.yml"];
const PATIENCE: Duration = Duration::from_mins(5);

#[test]
fn a_push_becomes_a_pull_request_that_merges() {
    let _turn = one_at_a_time();
    let executor = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acceptance/run-act");
    let stage = Stage::on(MockGithub::start_with(&["--executor", executor.to_str().unwrap()]));
    // Some calls fail at first, with the gateway's own error and without a `Retry-After`.
    let llm = stage.gateway(&["--rate-429", "0.05", "--rate-5xx", "0.05", "--seed", "7"]);
    let service = Service::start(&stage);
    service.introduce(&stage);

    // A push bumps the version; the workflow runs for it.
    copy_templates(&stage);
    let before = stage.commit("main");
    let bump = raise(&stage);
    let started = Instant::now();
    let log = run_push(&stage, &executor, &before, &bump, &service);
    eprintln!("skills: {} ms for the workflow of the push", started.elapsed().as_millis());
    assert!(log.contains("Job succeeded") && log.contains("fired"), "{log}");
    assert!(!log.contains(SERVE_TOKEN) && !log.contains(KEY), "a secret is in the log");
    let job = service.only_job(&stage);
    assert_eq!((&job["skill"], &job["git_sha"]), (&json!(SKILL), &json!(bump)), "{job:#}");
    let job = service.finished(&stage, 1);
    assert_eq!(job["state"], "completed", "{job:#}");
    assert!(llm.counter("s429") > 0 && llm.counter("s5xx") > 0, "no call failed");

    let pulls = stage.github.pulls();
    let [pull] = &pulls[..] else { panic!("{pulls:#?}") };
    assert!(pull.head.starts_with(&format!("eval-results/{SKILL}-{}-", &bump[..7])), "{}", pull.head);
    assert!(job["pull_request"].as_str().unwrap().ends_with(&format!("/pull/{}", pull.number)), "{job:#}");
    let board = merge(&stage, &pull.head);
    let entries = board.entries();
    assert_eq!(entries.len(), 3);
    for entry in entries {
        assert_eq!((entry.skill.as_str(), entry.prompt_commit.as_str()), (SKILL, bump.as_str()));
        assert_eq!((entry.replicates.get(), entry.calls.api_error, entry.calls.ok), (10, 0, 120));
    }
    let alias = entries.iter().find(|entry| entry.model == "quill-latest").unwrap();
    assert_eq!(alias.alias_target.as_deref(), Some("meadow/quill-large-2026-10"));
    let absent: Vec<&str> = board.absent().iter().map(|absent| absent.model.as_str()).collect();
    assert_eq!(absent, ["meadow/quill-retired"]);

    // By hand, with another number of replicates, on top of the merged results.
    let inputs = json!({ "skill_name": SKILL, "replicates": "1", "git_sha": &bump[..12] });
    let run = dispatch(&stage, "evaluate.yml", &inputs);
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{}", shown(&run));
    assert_eq!(service.finished(&stage, 2)["state"], "completed");
    let board = merge(&stage, &stage.github.pulls()[1].head);
    assert_eq!(board.entries().len(), 6, "another number of replicates is another entry");

    // The nightly sweep finds nothing missing.
    let run = dispatch(&stage, "sweep.yml", &json!({}));
    assert_eq!(run.conclusion.as_deref(), Some("success"), "{}", shown(&run));
    assert!(shown(&run).contains("merged") && shown(&run).contains(SKILL), "{}", shown(&run));
    assert_eq!(service.jobs(&stage).len(), 2, "nothing is fired twice");

    // An unknown skill fails the workflow.
    let run = dispatch(&stage, "evaluate.yml", &json!({ "skill_name": "no-such-skill" }));
    assert_eq!(run.conclusion.as_deref(), Some("failure"), "{}", shown(&run));
    assert!(shown(&run).contains("the service returned 404"), "{}", shown(&run));
    assert!(!stage.github.everything_shown().contains(SERVE_TOKEN), "the token is in a log");
}

/// `serve`, stopped with the test.
struct Service {
    _server: Server,
    url: String,
    ca: String,
}

impl Service {
    /// With TLS, by a private CA.
    fn start(stage: &Stage) -> Self {
        let (ca, cert, key) = certificates();
        let server = stage.serve(&cert, &key, SERVE_TOKEN);
        Self { url: format!("https://{}", server.address), _server: server, ca }
    }

    /// The settings of the library that a user makes: the secret and the variables.
    fn introduce(&self, stage: &Stage) {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        stage.github.repo(&NewRepo {
            full_name: LIBRARY.to_owned(),
            private: true,
            secrets: [text("EVALUATOR_TOKEN", SERVE_TOKEN)].into(),
            variables: self.variables().into_iter().map(|(name, value)| text(name, &value)).collect(),
            ..NewRepo::default()
        });
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        [("EVALUATOR_URL", self.url.clone()), ("EVALUATOR_CA", self.ca.clone())]
    }

    /// The jobs, newest first.
    fn jobs(&self, stage: &Stage) -> Vec<Value> {
        stage.workspace.write("ca.pem", &self.ca);
        let certificate = reqwest::Certificate::from_pem(self.ca.as_bytes()).unwrap();
        let client = reqwest::Client::builder().tls_certs_only([certificate]).no_proxy().build().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let text = runtime.block_on(async {
            let answer =
                client.get(format!("{}/jobs", self.url)).bearer_auth(SERVE_TOKEN).send().await.unwrap();
            answer.text().await.unwrap()
        });
        let list: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        list["jobs"].as_array().unwrap_or_else(|| panic!("{list}")).clone()
    }

    fn only_job(&self, stage: &Stage) -> Value {
        let jobs = self.jobs(stage);
        let [job] = &jobs[..] else { panic!("{jobs:#?}") };
        job.clone()
    }

    /// The newest of this many jobs, once it is complete.
    fn finished(&self, stage: &Stage, count: usize) -> Value {
        let started = Instant::now();
        loop {
            let jobs = self.jobs(stage);
            assert_eq!(jobs.len(), count, "{jobs:#?}");
            if !["queued", "running"].contains(&jobs[0]["state"].as_str().unwrap()) {
                return jobs[0].clone();
            }
            assert!(started.elapsed() < PATIENCE, "it takes too long: {jobs:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The certificate of a CA, and the certificate and key of a server on this machine.
fn certificates() -> (String, String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = names.signed_by(&key, &ca).unwrap();
    (ca.pem(), certificate.pem(), key.serialize_pem())
}

/// Bumps the version of the skill; returns the commit.
fn raise(stage: &Stage) -> String {
    let prompt = format!("components/{SKILL}/prompt.md");
    let text = stage.file("main", &prompt);
    let line = text.lines().find(|line| line.starts_with("version:")).unwrap();
    stage.github.put_file(LIBRARY, &prompt, text.replace(line, "version: 99.1.0"));
    stage.commit("main")
}

/// The templates, as a user copies them.
fn copy_templates(stage: &Stage) {
    for name in TEMPLATES {
        let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows").join(name);
        let text = std::fs::read_to_string(template).unwrap();
        stage.github.put_file(LIBRARY, &format!(".github/workflows/{name}"), text);
    }
}

/// What GitHub does after a push: runs the workflow with the event. Returns the log.
fn run_push(stage: &Stage, executor: &Path, before: &str, after: &str, service: &Service) -> String {
    let dir = stage.workspace.path("push");
    std::fs::create_dir_all(&dir).unwrap();
    let urls = stage.github.urls();
    let event = json!({
        "ref": "refs/heads/main", "before": before, "after": after, "deleted": false,
        "repository": { "full_name": LIBRARY, "default_branch": "main" },
    });
    let env = json!({
        "GITHUB_TOKEN": TOKEN, "GITHUB_SERVER_URL": urls.server_url, "GITHUB_API_URL": urls.api_url,
        "GITHUB_REPOSITORY": LIBRARY, "GITHUB_SHA": after, "GITHUB_REF": "refs/heads/main", "GITHUB_RUN_ID": "1",
        "GITHUB_RUN_ATTEMPT": "1", "GITHUB_ACTOR": "ada", "GITHUB_TRIGGERING_ACTOR": "ada",
    });
    let variables: serde_json::Map<String, Value> =
        service.variables().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let run = json!({
        "event": "push", "workflow": ".github/workflows/evaluate.yml", "env": env,
        "secrets": { "EVALUATOR_TOKEN": SERVE_TOKEN }, "variables": variables,
    });
    std::fs::write(dir.join("event.json"), event.to_string()).unwrap();
    std::fs::write(dir.join("env.json"), run.to_string()).unwrap();
    let output = Command::new(executor).arg(&dir).output().unwrap();
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{log}\n{}", String::from_utf8_lossy(&output.stderr));
    log
}

/// As a user does with GitHub's button; the run, once it is complete.
fn dispatch(stage: &Stage, file: &str, inputs: &Value) -> RunView {
    stage.token(
        "github_pat_person",
        crate::support::github::TokenKind::Personal,
        &[("actions", "write"), ("contents", "read")],
    );
    let url = format!("{}/repos/{LIBRARY}/actions/workflows/{file}/dispatches", stage.github.urls().api_url);
    let known = stage.github.runs().len();
    let body = json!({ "ref": "main", "inputs": inputs }).to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request =
        reqwest::Client::new().post(url).bearer_auth("github_pat_person").header("user-agent", "acceptance");
    let answer =
        runtime.block_on(request.header("content-type", "application/json").body(body).send()).unwrap();
    assert_eq!(answer.status(), 204);
    let started = Instant::now();
    loop {
        let runs = stage.github.runs();
        if let Some(run) = runs.get(known).filter(|run| run.status == "completed") {
            return run.clone();
        }
        assert!(started.elapsed() < PATIENCE, "it takes too long: {runs:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Merges a results branch into the default branch, in a separate clone, and returns the leaderboard.
fn merge(stage: &Stage, branch: &str) -> Leaderboard {
    let clone = stage.workspace.path("merging");
    let bare = stage.github.git_dir(LIBRARY);
    git(stage.workspace.root(), &["clone", "--quiet", bare.to_str().unwrap(), clone.to_str().unwrap()]);
    git(&clone, &["merge", "--quiet", "--no-ff", "-m", "Merge results", &format!("origin/{branch}")]);
    assert_eq!(git(&clone, &["status", "--porcelain"]), "");
    assert_eq!(git(&clone, &["diff", "--name-only", "HEAD^1", "HEAD"]), "leaderboard.json");
    git(&clone, &["push", "--quiet", "origin", "HEAD:main"]);
    let bytes = std::fs::read(clone.join("leaderboard.json")).unwrap();
    std::fs::remove_dir_all(&clone).unwrap();
    Leaderboard::parse(&bytes, Path::new(Leaderboard::PATH)).unwrap()
}

/// git at the present time, which a sweep depends on.
fn git(dir: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").current_dir(dir).args(identity).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn shown(run: &RunView) -> String {
    run.jobs.iter().map(|job| job.log.as_str()).collect()
}
