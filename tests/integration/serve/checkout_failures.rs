//! Failures around a job: the reason is clear to a contributor, the service is free again, and the clone is usable for
//! the next one.

use serde_json::{Value, json};

use super::service::Service;
use crate::evaluate::stage::{LIBRARY, SKILL, Stage, commit_all, git};
use crate::support::github::{Fault, TokenKind, What, Wrong};

/// The reason of a rejection, without values that differ between runs.
fn refused(stage: &Stage, service: &Service, order: &Value, status: u16) -> String {
    let answer = service.submit(order).expect(status);
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

/// Checks that the next job works.
fn works(service: &Service) {
    let id = service.accepted(1);
    service.ended(&id, "completed");
}

fn skill() -> Value {
    json!({"skill_name": SKILL, "replicates": 1})
}

const QUIETLY: [&str; 2] = ["--report-failures", "none"];

#[test]
fn a_rewritten_history_and_a_clone_with_local_commits() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &QUIETLY);
    let library = stage.workspace.path("library");
    works(&service);
    // A local commit in the clone.
    std::fs::write(library.join("note"), "mine").unwrap();
    commit_all(&library, "Mine");
    stage.push(|dir| std::fs::write(dir.join("note"), "theirs").unwrap());
    let diverged = refused(&stage, &service, &skill(), 503);
    git(&library, &["reset", "--quiet", "--hard", "HEAD~1"]);
    works(&service);
    // The branch is force-pushed.
    stage.push_to("main", &["--force"], |dir| {
        git(dir, &["reset", "--quiet", "--hard", "HEAD~1"]);
        std::fs::write(dir.join("note"), "another history").unwrap();
    });
    let rewritten = refused(&stage, &service, &skill(), 503);
    let sha = stage.commit("main");
    // A named commit does not depend on the clone's branch.
    let order = json!({"skill_name": SKILL, "replicates": 1, "git_sha": sha});
    let id = service.submit(&order).expect(202)["job_id"].as_str().unwrap().to_owned();
    service.ended(&id, "completed");
    // The fix from the message.
    let bare = stage.github.git_dir(LIBRARY);
    git(&library, &["fetch", "--quiet", bare.to_str().unwrap(), "main"]);
    git(&library, &["checkout", "--quiet", "-B", "main", "FETCH_HEAD"]);
    works(&service);
    // A local change in the clone.
    std::fs::write(library.join("README.md"), "edited").unwrap();
    let dirty = refused(&stage, &service, &skill(), 503);
    git(&library, &["checkout", "--quiet", "--", "."]);
    works(&service);
    insta::assert_snapshot!([diverged, rewritten, dirty].join("\n---\n"), @r#"
    `[dir]/library` cannot be fast-forwarded: its commit [sha] is not part of `main` at `[github]/meadow/skills.git`, which is [sha] now
    hint: the remote's history was rewritten, or the clone has its own commits; `git -C [dir]/library fetch origin && git -C [dir]/library checkout -B main origin/main` makes the clone what the remote is
    ---
    `[dir]/library` cannot be fast-forwarded: its commit [sha] is not part of `main` at `[github]/meadow/skills.git`, which is [sha] now
    hint: the remote's history was rewritten, or the clone has its own commits; `git -C [dir]/library fetch origin && git -C [dir]/library checkout -B main origin/main` makes the clone what the remote is
    ---
    `[dir]/library` has uncommitted changes, such as `README.md`
    hint: only commits are evaluated: commit or discard the changes
    "#);
}

#[test]
fn missing_commits_and_commits_outside_the_branch() {
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
    hint: use a commit of the default branch, with at least 7 digits
    ---
    `[sha]` is not part of the history of `main` at `[github]/meadow/skills.git`
    hint: use a commit of the default branch, with at least 7 digits
    "#);
}

#[test]
fn an_unreachable_remote() {
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
fn a_token_without_permissions() {
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
    // The file is read again for each job.
    stage.workspace.write("token.txt", crate::evaluate::stage::TOKEN);
    works(&service);
    assert_eq!(stage.github.pulls().len(), 1);
    insta::assert_snapshot!(format!("{reader}\n---\n{stranger}"), @r#"
    the token lacks permission for git at `[github]/meadow/skills.git`
    nothing is lost: the entries are in `state/evaluations/[job]-[sha].entries.json`
    hint: it needs `Contents: read and write` there (fine-grained token or App), the scope `repo` (classic token), or `permissions: contents: write` (GITHUB_TOKEN, its own repository only)
    ---
    the token lacks permission for git at `[github]/meadow/skills.git`
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
    `meadow/quill-large` on target `mindrouter` gave no response to 12 calls: server 503: the server is overloaded, by chance
    hint: nothing was published: request it again (or use the same `--batch-id`) when the model works
    "#);
}

/// A power cut while git writes the files of the new commit: the commit exists, the files and the index are empty.
#[test]
fn an_interrupted_clone_update_is_repaired() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let library = stage.workspace.path("library");
    stage.push(|dir| {
        std::fs::write(dir.join("new.md"), "new\n").unwrap();
        std::fs::write(dir.join(".evaluator/note"), "changed\n").unwrap();
        std::fs::remove_file(dir.join("README.md")).unwrap();
    });
    let path = stage.workspace.path_with_git(
        r#"case " $* " in *' merge '*--ff-only*)
            "$real" "$@"
            : > new.md; : > .evaluator/note; : > .git/index; : > .git/index.lock; echo old > README.md
            kill -9 $PPID; exit 1;;
        esac"#,
    );
    stage.workspace.write_private("tokens", super::service::OURS);
    let api = stage.github.urls().api_url.clone();
    let service =
        Service::of(stage.workspace.command(&super::service::args(&api, &QUIETLY)).env("PATH", path));
    let address = service.address.clone();
    let bearer = super::service::bearer(super::service::OURS);
    let headers = super::service::job_headers(&bearer);
    let request = super::http::request("POST", "/evaluate", &headers, skill().to_string().as_bytes());
    assert!(super::http::send(&address, &request).is_none(), "it was killed");
    drop(service);

    let service = Service::start(&stage, &QUIETLY);
    works(&service);
    assert_eq!(std::fs::read_to_string(library.join("new.md")).unwrap(), "new\n");
    assert!(!library.join("README.md").exists());
    assert_eq!(git(&library, &["status", "--porcelain"]), "");
    assert_eq!(git(&library, &["rev-parse", "HEAD"]), stage.commit("main"));
    // Later manual changes are kept.
    std::fs::write(library.join("new.md"), "edited").unwrap();
    refused(&stage, &service, &skill(), 503);
}

#[test]
fn an_empty_ref_in_the_clone_is_fetched_again() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let service = Service::start(&stage, &QUIETLY);
    works(&service);
    std::fs::write(stage.workspace.path("library/.git/refs/run-evals/default"), "").unwrap();
    works(&service);
}

#[test]
fn a_clone_with_many_packs_is_packed_after_a_job() {
    let stage = Stage::new();
    let _llm = stage.gateway(&[]);
    let library = stage.workspace.path("library");
    let packs = || {
        let files = std::fs::read_dir(library.join(".git/objects/pack")).unwrap();
        files
            .filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|end| end == "pack"))
            .count()
    };
    for number in 0..60 {
        let import = format!("blob\ndata <<END\npack {number}\nEND\n");
        stage.workspace.write("import", import);
        let mut import = std::process::Command::new("git");
        import.args(["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet"]).current_dir(&library);
        import.stdin(std::fs::File::open(stage.workspace.path("import")).unwrap());
        assert!(import.status().unwrap().success());
    }
    // A killed publication has left its branch.
    git(&library, &["branch", "eval-results/left"]);
    assert!(packs() >= 60, "{}", packs());
    let service = Service::start(&stage, &QUIETLY);
    works(&service);
    assert!(packs() < 10, "{}", packs());
    assert_eq!(git(&library, &["branch", "--list", "eval-results/*"]), "");
    works(&service);
}
