//! Persistent clones: updated before each evaluation, and usable after any failure.

use std::path::Path;
use std::sync::Arc;

use run_evals::testing::Env;
use run_evals::testing::{Auth, Client, ClientOptions};
use run_evals::testing::{
    Checkout, CheckoutError, CheckoutProblem, CloneSource, EvaluationRequest, Update, Workspace, check_out,
};
use run_evals::testing::{Replicates, Secret};

use super::stage::{DATASETS, LIBRARY, SKILL, Stage, TOKEN, commit_all, git};
use crate::support::github::{Fault, What, Wrong};

/// Checks out as the service does, with its own clones.
fn serve(stage: &Stage, skill: &str, git_sha: Option<&str>) -> Result<Checkout, CheckoutError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let api_url = stage.github.urls().api_url.clone();
        let auth = Auth::Token(Secret::new(TOKEN));
        let kept = |name: &str| CloneSource { dir: stage.workspace.path(name), update: Update::Pull };
        let workspace = Workspace {
            library: kept("library"),
            datasets: Some(kept("datasets")),
            targets: stage.workspace.path("targets.yaml"),
            target_names: Vec::new(),
            env: Env::default(),
            state: stage.workspace.path("state"),
            github: Some(
                Client::new(ClientOptions { api_url, auth, notify: None, ca_pem: Vec::new() }).unwrap(),
            ),
            max_concurrency: None,
            tell: Arc::new(|_| ()),
        };
        let order = EvaluationRequest::new(
            skill.parse().unwrap(),
            Replicates::default(),
            git_sha.map(|sha| sha.parse().unwrap()),
        );
        check_out(&workspace, &order).await
    })
}

/// The problem and its message, without values that differ between runs.
fn refused(stage: &Stage, git_sha: Option<&str>, problem: CheckoutProblem) -> String {
    let error = serve(stage, SKILL, git_sha).unwrap_err();
    assert_eq!(error.problem, problem, "{error}");
    let said = error.to_string().replace(&stage.github.urls().server_url, "<server>");
    said.replace(stage.workspace.root().to_str().unwrap(), "<dir>")
}

fn head(stage: &Stage, clone: &str) -> String {
    git(&stage.workspace.path(clone), &["rev-parse", "HEAD"])
}

fn change(name: &str) -> impl FnOnce(&Path) {
    let name = name.to_owned();
    move |dir| std::fs::write(dir.join(name), "x\n").unwrap()
}

#[test]
fn both_clones_follow_their_default_branches() {
    let stage = Stage::new();
    let commit = stage.push(change("new.txt"));
    stage.github.put_file(DATASETS, "new.txt", "x");
    let checkout = serve(&stage, SKILL, None).unwrap();
    assert_eq!(checkout.prompt_commit().as_str(), commit);
    assert_eq!(
        (head(&stage, "library"), head(&stage, "datasets")),
        (commit, stage.github.git(DATASETS, &["rev-parse", "main"]))
    );
    assert_eq!(checkout.skill.cases.len(), 12);
    assert!(
        stage.workspace.path("library/new.txt").exists() && stage.workspace.path("datasets/new.txt").exists()
    );
}

#[test]
fn evaluating_a_commit_does_not_move_the_clone() {
    let stage = Stage::new();
    let old = stage.commit("main");
    let new = stage.push(change("new.txt"));
    let checkout = serve(&stage, SKILL, Some(&new[..7])).unwrap();
    assert_eq!((checkout.prompt_commit().as_str(), head(&stage, "library")), (new.as_str(), old));
    assert_eq!(git(&stage.workspace.path("library"), &["status", "--porcelain"]), "");
    assert_eq!(
        std::fs::read_dir(stage.workspace.path("state")).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn commits_outside_the_default_branch_are_refused() {
    let stage = Stage::new();
    // GitHub also serves the commits of forks and other branches by their SHA.
    let foreign = stage.push_to("feature", &[], change("evil.txt"));
    git(
        &stage.workspace.path("library"),
        &["fetch", "--quiet", stage.github.git_dir(LIBRARY).to_str().unwrap(), "feature"],
    );
    let said = refused(&stage, Some(&foreign), CheckoutProblem::NotAncestor);
    insta::assert_snapshot!(said.replace(&foreign, "<foreign>"), @r"
    `<foreign>` is not part of the history of `main` at `<server>/meadow/skills.git`
    hint: only commits of the default branch are evaluated: merge it first
    ");
    let said = refused(&stage, Some("0123456789"), CheckoutProblem::UnknownSha);
    insta::assert_snapshot!(said, @r"
    `0123456789` is not part of the history of `main` at `<server>/meadow/skills.git`
    hint: use a commit of the default branch, with at least 7 digits
    ");
    serve(&stage, SKILL, None).unwrap();
}

#[test]
fn an_unknown_skill_and_an_invalid_skill_have_different_errors() {
    let stage = Stage::new();
    let error = serve(&stage, "grant-letter-extractoin", None).unwrap_err();
    assert_eq!(error.problem, CheckoutProblem::UnknownSkill);
    let commit = &stage.commit("main")[..7];
    insta::assert_snapshot!(error.to_string().replace(commit, "<commit>"), @r"
    no skill `grant-letter-extractoin` in the library at <commit>: `components/grant-letter-extractoin/prompt.md` not found
    hint: did you mean `grant-letter-extraction`?
    ");
    stage.push(|dir| {
        std::fs::write(dir.join(format!("components/{SKILL}/prompt.md")), "no front matter\n").unwrap();
    });
    let said = refused(&stage, None, CheckoutProblem::Invalid);
    assert!(
        said.contains(&format!("components/{SKILL}/prompt.md:1:1")) && !said.contains("run-evals-work-"),
        "{said}"
    );
}

#[test]
fn a_rewritten_history_is_refused_but_its_commits_can_be_evaluated() {
    let stage = Stage::new();
    stage.push(change("a.txt"));
    serve(&stage, SKILL, None).unwrap();
    let before = head(&stage, "library");
    // A force-push replaces the commit with another one.
    stage.github.git(LIBRARY, &["update-ref", "refs/heads/main", "main~1"]);
    let now = stage.push(change("b.txt"));
    for _ in 0..2 {
        let said = refused(&stage, None, CheckoutProblem::Diverged);
        let said = said.replace(&before[..7], "<before>").replace(&now[..7], "<now>");
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @r"
            `<dir>/library` cannot be fast-forwarded: its commit <before> is not part of `main` at `<server>/meadow/skills.git`, which is <now> now
            hint: the remote's history was rewritten, or the clone has its own commits; `git -C <dir>/library fetch origin && git -C <dir>/library checkout -B main origin/main` makes the clone what the remote is
            ");
        }
        assert_eq!(head(&stage, "library"), before, "the clone is left as it was");
    }
    // A commit named by the trigger is still found.
    assert_eq!(serve(&stage, SKILL, Some(&now)).unwrap().prompt_commit().as_str(), now);
    // Following the hint fixes it.
    let library = stage.workspace.path("library");
    git(
        &library,
        &[
            "fetch",
            "--quiet",
            stage.github.git_dir(LIBRARY).to_str().unwrap(),
            "+main:refs/remotes/origin/main",
        ],
    );
    git(&library, &["checkout", "--quiet", "-B", "main", "origin/main"]);
    assert_eq!(serve(&stage, SKILL, None).unwrap().prompt_commit().as_str(), now);
}

#[test]
fn a_clone_with_local_changes_or_commits_is_refused_and_not_touched() {
    let stage = Stage::new();
    let library = stage.workspace.path("library");
    std::fs::write(library.join("README.md"), "edited\n").unwrap();
    let said = refused(&stage, None, CheckoutProblem::Dirty);
    insta::assert_snapshot!(said, @r"
    `<dir>/library` has uncommitted changes, such as `README.md`
    hint: only commits are evaluated: commit or discard the changes
    ");
    assert_eq!(std::fs::read_to_string(library.join("README.md")).unwrap(), "edited\n");
    commit_all(&library, "Of its own");
    refused(&stage, None, CheckoutProblem::Diverged);
    git(&library, &["reset", "--quiet", "--hard", "HEAD~1"]);
    serve(&stage, SKILL, None).unwrap();
    // An untracked file in the data sets must not be mistaken for one of their commit.
    let datasets = stage.workspace.path("datasets");
    git(&datasets, &["rm", "--quiet", "--cached", "real/meadow_letters/text/larch-data.md"]);
    git(&datasets, &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "--quiet", "-m", "Forget it"]);
    git(&datasets, &["push", "--quiet", stage.github.git_dir(DATASETS).to_str().unwrap(), "main"]);
    refused(&stage, None, CheckoutProblem::Dirty);
}

#[test]
fn an_unreachable_remote_is_retried_and_then_reported() {
    let stage = Stage::new();
    let broken = |times| Fault {
        what: What::Answer {
            route: "GIT info/refs".to_owned(),
            after: false,
            answer: Wrong::Status {
                status: 503,
                body: "<html>".to_owned(),
                headers: std::collections::BTreeMap::new(),
            },
        },
        times,
        skip: 0,
    };
    stage.github.add_fault(&broken(Some(2)));
    serve(&stage, SKILL, None).unwrap();
    stage.github.add_fault(&broken(None));
    let said = refused(&stage, None, CheckoutProblem::Pull);
    insta::assert_snapshot!(said, @"cannot reach `<server>/meadow/skills.git`: `git ls-remote` failed (exit status: 128): fatal: unable to access '<server>/meadow/skills.git/': The requested URL returned error: 503");
    stage.github.clear_faults();
    // For a token without access, the message names the repository.
    stage.github.token(TOKEN, "eval-bot", "meadow/other", &[("contents", "read")]);
    let said = refused(&stage, None, CheckoutProblem::Pull);
    insta::assert_snapshot!(said, @r"
    no repository at `<server>/meadow/skills.git`, or not accessible with this token
    hint: check its name, and that the token may read it (`Contents: read`)
    ");
    stage.token(TOKEN, crate::support::github::TokenKind::Personal, &[("contents", "read")]);
    serve(&stage, SKILL, None).unwrap();
}

#[test]
fn a_clone_with_a_stale_lock_is_usable_again() {
    let stage = Stage::new();
    let commit = stage.push(change("new.txt"));
    let lock = stage.workspace.path("library/.git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let said = refused(&stage, None, CheckoutProblem::Pull);
    assert!(said.contains("`<dir>/library/.git/index.lock` keeps git from changing the clone"), "{said}");
    assert!(said.contains("`rm <dir>/library/.git/index.lock`; run-evals removes it itself in "), "{said}");
    // One that a process holds stays, whatever its age.
    let held = std::fs::File::options().write(true).open(&lock).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    held.set_modified(old).unwrap();
    let said = refused(&stage, None, CheckoutProblem::Pull);
    let holder = format!("process {} (", std::process::id());
    assert!(said.contains(&holder) && said.contains("wait until that process has ended"), "{said}");
    drop(held);
    // The lock of a git process that has exited.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(90);
    std::fs::File::options().write(true).open(&lock).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(serve(&stage, SKILL, None).unwrap().prompt_commit().as_str(), commit);
}

/// A file size limit simulates a full disk: git fails half-way.
#[test]
fn a_full_disk_is_reported_and_the_clone_works_once_there_is_space() {
    let stage = Stage::new();
    let commit = stage.push(|dir| {
        // Incompressible content.
        let bytes: Vec<u8> = (0..200_000).map(|_| fastrand::u8(..)).collect();
        std::fs::write(dir.join("large.bin"), bytes).unwrap();
    });
    let small = stage.workspace.path("library");
    let args = stage
        .args(&["--replicates", "1", "-q"])
        .iter()
        .map(|arg| format!("'{arg}'"))
        .collect::<Vec<_>>()
        .join(" ");
    let script = format!("ulimit -f 100; trap '' XFSZ; exec '{}' {args}", env!("CARGO_BIN_EXE_run-evals"));
    let _llm = stage.gateway(&[]);
    let mut shell = std::process::Command::new("sh");
    stage.workspace.like(shell.args(["-c", &script]));
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("File too large") || said.contains("write error"), "{said}");
    git(&small, &["fsck", "--no-progress", "--connectivity-only"]);
    assert_eq!(serve(&stage, SKILL, None).unwrap().prompt_commit().as_str(), commit);
}

/// Moves a part of a clone's git directory to `outer`, and leaves a link.
fn link_out(stage: &Stage, name: &str) -> std::path::PathBuf {
    let (inner, outer) = (stage.workspace.path("library/.git").join(name), stage.workspace.path("outer"));
    std::fs::create_dir_all(&outer).unwrap();
    let target = outer.join(name);
    if inner.exists() {
        std::fs::rename(&inner, &target).unwrap();
    }
    std::os::unix::fs::symlink(&target, &inner).unwrap();
    target
}

#[test]
fn nothing_is_written_through_links_of_a_clone() {
    let stage = Stage::new();
    stage.push(change("new.txt"));
    let refs = link_out(&stage, "refs");
    let lock = refs.join("heads/stale.lock");
    std::fs::write(&lock, "").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    std::fs::File::options().write(true).open(&lock).unwrap().set_modified(old).unwrap();
    let said = serve(&stage, SKILL, None).unwrap_err().to_string();
    assert!(lock.exists(), "a lock behind the link was removed");
    assert!(!refs.join("run-evals").exists(), "a reference was written behind the link");
    assert!(said.contains("library/.git` is not trusted: `refs` is a link"), "{said}");
    for name in ["run-evals.lock", "run-evals-forward.lock"] {
        let stage = Stage::new();
        stage.push(change("new.txt"));
        let target = link_out(&stage, name);
        assert!(serve(&stage, SKILL, None).is_err(), "{name}");
        assert!(!target.exists(), "{name}: a file was made behind the link");
    }
}
