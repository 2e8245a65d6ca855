//! What goes wrong around a job: the reason is one that a contributor understands, the place is free, and the clone is fit for
//! the next one.

use serde_json::{Value, json};

use super::service::Service;
use crate::evaluate::stage::{LIBRARY, SKILL, Stage, commit_all, git};
use crate::support::github::{Fault, TokenKind, What, Wrong};

/// The reason of a refusal, without what differs from run to run.
fn refused(stage: &Stage, service: &Service, order: &Value, status: u16) -> String {
    let answer = service.order(order).expect(status);
    assert!(!service.is_busy(), "the place is free");
    comparable(stage, answer["error"].as_str().unwrap())
}

fn comparable(stage: &Stage, text: &str) -> String {
    let text = text.replace(stage.workspace.root().to_str().unwrap(), "[dir]");
    let text = text.replace(&stage.github.urls().server_url, "[github]");
    let is_sha =
        |word: &str| word.len() >= 7 && word.len() <= 40 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words
        .map(|word| {
            let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            if is_sha(bare) { word.replace(bare, "[sha]") } else { word.to_owned() }
        })
        .collect()
}

/// The next job works.
fn works(service: &Service) {
    let id = service.accepted(1);
    service.ended(&id, "completed");
}

fn skill() -> Value {
    json!({"skill_name": SKILL, "replicates": 1})
}

const QUIETLY: [&str; 2] = ["--report-failures", "none"];

#[test]
fn rewritten_history_and_a_clone_of_its_own_mind() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &QUIETLY);
    let library = stage.workspace.path("library");
    works(&service);
    // Somebody commits in the clone.
    std::fs::write(library.join("note"), "mine").unwrap();
    commit_all(&library, "Mine");
    stage.push(|dir| std::fs::write(dir.join("note"), "theirs").unwrap());
    let diverged = refused(&stage, &service, &skill(), 503);
    git(&library, &["reset", "--quiet", "--hard", "HEAD~1"]);
    works(&service);
    // Somebody rewrites the branch.
    stage.push_to("main", &["--force"], |dir| {
        git(dir, &["reset", "--quiet", "--hard", "HEAD~1"]);
        std::fs::write(dir.join("note"), "another history").unwrap();
    });
    let rewritten = refused(&stage, &service, &skill(), 503);
    let sha = stage.commit("main");
    // A commit that is named needs no branch of the clone.
    let order = json!({"skill_name": SKILL, "replicates": 1, "git_sha": sha});
    let id = service.order(&order).expect(202)["job_id"].as_str().unwrap().to_owned();
    service.ended(&id, "completed");
    // The way out that the reason names.
    let bare = stage.github.git_dir(LIBRARY);
    git(&library, &["fetch", "--quiet", bare.to_str().unwrap(), "main"]);
    git(&library, &["checkout", "--quiet", "-B", "main", "FETCH_HEAD"]);
    works(&service);
    // Somebody edits in the clone.
    std::fs::write(library.join("README.md"), "edited").unwrap();
    let dirty = refused(&stage, &service, &skill(), 503);
    git(&library, &["checkout", "--quiet", "--", "."]);
    works(&service);
    insta::assert_snapshot!([diverged, rewritten, dirty].join("\n---\n"), @r#"
    `[dir]/library` cannot be moved forward: its commit [sha] is not part of `main` at `[github]/meadow/skills.git`, which is [sha] now
    hint: the history there was rewritten, or the clone has commits of its own; `git -C [dir]/library fetch origin && git -C [dir]/library checkout -B main origin/main` makes the clone what the remote is
    ---
    `[dir]/library` cannot be moved forward: its commit [sha] is not part of `main` at `[github]/meadow/skills.git`, which is [sha] now
    hint: the history there was rewritten, or the clone has commits of its own; `git -C [dir]/library fetch origin && git -C [dir]/library checkout -B main origin/main` makes the clone what the remote is
    ---
    `[dir]/library` has changes that are not committed, such as `README.md`
    hint: what is evaluated is a commit: commit the changes, or take them back
    "#);
}

#[test]
fn commits_that_are_not_there_or_not_part_of_it() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &QUIETLY);
    let order = |sha: &str| json!({"skill_name": SKILL, "replicates": 1, "git_sha": sha});
    let unknown = refused(&stage, &service, &order("0123456789012345678901234567890123456789"), 422);
    let elsewhere = stage.push_to("topic", &[], |dir| std::fs::write(dir.join("x"), "").unwrap());
    let not_part = refused(&stage, &service, &order(&elsewhere), 422);
    works(&service);
    insta::assert_snapshot!([unknown, not_part].join("\n---\n"), @r#"
    `[sha]` is not part of the history of `main` at `[github]/meadow/skills.git`
    hint: name a commit of the default branch, with 7 digits or more
    ---
    `[sha]` is not part of the history of `main` at `[github]/meadow/skills.git`
    hint: name a commit of the default branch, with 7 digits or more
    "#);
}

#[test]
fn a_remote_that_is_down() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &QUIETLY);
    let down = |route: &str| {
        let answer = Wrong::Status {
            status: 503,
            body: "down".to_owned(),
            headers: std::collections::BTreeMap::new(),
        };
        let what = What::Answer { route: route.to_owned(), after: false, answer };
        stage.github.add_fault(&Fault { what, times: None, skip: 0 })
    };
    down("GIT info/refs");
    let told = refused(&stage, &service, &skill(), 503);
    stage.github.clear_faults();
    works(&service);
    insta::assert_snapshot!(told, @"cannot reach `[github]/meadow/skills.git`: `git ls-remote` failed (exit status: 128): fatal: unable to access '[github]/meadow/skills.git/': The requested URL returned error: 503");
}

#[test]
fn a_token_without_rights() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    stage.token("github_pat_reader", TokenKind::Personal, &[("contents", "read")]);
    stage.token("github_pat_stranger", TokenKind::Personal, &[]);
    let service = Service::start(&stage, &QUIETLY);
    stage.workspace.write("token.txt", "github_pat_reader");
    let id = service.accepted(1);
    let job = service.ended(&id, "failed");
    assert!(!service.is_busy());
    let reader = comparable(&stage, job["reason"].as_str().unwrap()).replace(&id[..id.len() - 8], "[job]-");
    stage.workspace.write("token.txt", "github_pat_stranger");
    let stranger = refused(&stage, &service, &skill(), 503);
    // The file is read anew for each job.
    stage.workspace.write("token.txt", crate::evaluate::stage::TOKEN);
    works(&service);
    assert_eq!(stage.github.pulls().len(), 1);
    insta::assert_snapshot!(format!("{reader}\n---\n{stranger}"), @r#"
    the token may not do this with git at `[github]/meadow/skills.git`
    nothing is lost: the entries are in `state/evaluations/[job]-[sha].entries.json`
    hint: it needs `Contents: read and write` there (fine-grained token or App), the scope `repo` (classic token), or `permissions: contents: write` (GITHUB_TOKEN, its own repository only)
    ---
    the token may not do this with git at `[github]/meadow/skills.git`
    hint: it needs `Contents: read and write` there (fine-grained token or App), the scope `repo` (classic token), or `permissions: contents: write` (GITHUB_TOKEN, its own repository only)
    "#);
}

#[test]
fn a_model_that_always_fails() {
    let stage = Stage::new();
    let broken = stage.gateway(&["--rate-5xx", "1"]);
    stage.targets(&broken, "    max_retries: 1\n");
    let service = Service::start(&stage, &QUIETLY);
    let id = service.accepted(1);
    let job = service.ended(&id, "failed");
    assert!(!service.is_busy());
    assert!(stage.github.pulls().is_empty(), "nothing is published");
    drop(broken);
    let _llm = stage.gateway(&[]);
    works(&service);
    insta::assert_snapshot!(job["reason"].as_str().unwrap(), @r#"
    `meadow/quill-large` on target `mindrouter` answered none of 12 calls: server 503: the server is overloaded, by chance
    hint: nothing was published; the answers of the other models are kept: order it again (or name the same `--batch-id`), and only the rest is asked
    "#);
}
