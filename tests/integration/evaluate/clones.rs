//! Clones that are kept: brought up to date, and usable after whatever went wrong.

use std::path::Path;
use std::sync::Arc;

use run_evals::config::Env;
use run_evals::evaluate::{
    Checkout, CheckoutError, CheckoutProblem, Order, Place, Source, Update, check_out,
};
use run_evals::github::{Auth, Client, ClientOptions};
use run_evals::model::{Replicates, Secret};

use super::stage::{DATASETS, LIBRARY, SKILL, Stage, TOKEN, commit_all, git};
use crate::support::github::{Fault, What, Wrong};

/// Checks out as the service does, with clones of its own.
fn serve(stage: &Stage, skill: &str, git_sha: Option<&str>) -> Result<Checkout, CheckoutError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let api_url = stage.github.urls().api_url.clone();
        let auth = Auth::Token(Secret::new(TOKEN));
        let kept = |name: &str| Source { dir: stage.workspace.path(name), update: Update::Pull };
        let place = Place {
            library: kept("library"),
            datasets: Some(kept("datasets")),
            targets: stage.workspace.path("targets.yaml"),
            target_names: Vec::new(),
            env: Env::default(),
            state: stage.workspace.path("state"),
            github: Some(Client::new(ClientOptions { api_url, auth, notify: None }).unwrap()),
            max_concurrency: None,
            tell: Arc::new(|_| ()),
        };
        let order = Order::new(
            skill.parse().unwrap(),
            Replicates::default(),
            git_sha.map(|sha| sha.parse().unwrap()),
        );
        check_out(&place, &order).await
    })
}

/// The problem, and what is said of it, without what differs from run to run.
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
fn both_clones_move_forward_with_their_default_branches() {
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
fn a_commit_is_evaluated_beside_the_clone_which_stays_where_it_is() {
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
fn commits_that_are_not_part_of_the_default_branch_are_refused() {
    let stage = Stage::new();
    // GitHub serves the commits of forks and of branches by their names, too.
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
    hint: name a commit of the default branch, with 7 digits or more
    ");
    serve(&stage, SKILL, None).unwrap();
}

#[test]
fn an_unknown_skill_is_told_from_a_broken_one() {
    let stage = Stage::new();
    let error = serve(&stage, "grant-letter-extractoin", None).unwrap_err();
    assert_eq!(error.problem, CheckoutProblem::UnknownSkill);
    let commit = &stage.commit("main")[..7];
    insta::assert_snapshot!(error.to_string().replace(commit, "<commit>"), @r"
    no skill `grant-letter-extractoin` in the library at <commit>: there is no `components/grant-letter-extractoin/prompt.md`
    hint: did you mean `grant-letter-extraction`?
    ");
    stage.push(|dir| {
        std::fs::write(dir.join(format!("components/{SKILL}/prompt.md")), "no front matter\n").unwrap()
    });
    let said = refused(&stage, None, CheckoutProblem::Invalid);
    assert!(
        said.contains(&format!("components/{SKILL}/prompt.md:1:1")) && !said.contains("library-"),
        "{said}"
    );
}

#[test]
fn a_rewritten_history_is_refused_and_commits_of_the_new_one_are_not() {
    let stage = Stage::new();
    stage.push(change("a.txt"));
    serve(&stage, SKILL, None).unwrap();
    let before = head(&stage, "library");
    // Somebody takes the commit back and pushes another in its place.
    stage.github.git(LIBRARY, &["update-ref", "refs/heads/main", "main~1"]);
    let now = stage.push(change("b.txt"));
    for _ in 0..2 {
        let said = refused(&stage, None, CheckoutProblem::Diverged);
        let said = said.replace(&before[..7], "<before>").replace(&now[..7], "<now>");
        insta::allow_duplicates! {
            insta::assert_snapshot!(said, @r"
            `<dir>/library` cannot be moved forward: its commit <before> is not part of `main` at `<server>/meadow/skills.git`, which is <now> now
            hint: the history there was rewritten, or the clone has commits of its own; `git -C <dir>/library fetch origin && git -C <dir>/library checkout -B main origin/main` makes the clone what the remote is
            ");
        }
        assert_eq!(head(&stage, "library"), before, "the clone is left as it was");
    }
    // What the trigger names is found all the same.
    assert_eq!(serve(&stage, SKILL, Some(&now)).unwrap().prompt_commit().as_str(), now);
    // The hint is the way out.
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
fn a_clone_with_changes_or_commits_of_its_own_is_refused_and_not_touched() {
    let stage = Stage::new();
    let library = stage.workspace.path("library");
    std::fs::write(library.join("README.md"), "edited\n").unwrap();
    let said = refused(&stage, None, CheckoutProblem::Dirty);
    insta::assert_snapshot!(said, @r"
    `<dir>/library` has changes that are not committed, such as `README.md`
    hint: what is evaluated is a commit: commit the changes, or take them back
    ");
    assert_eq!(std::fs::read_to_string(library.join("README.md")).unwrap(), "edited\n");
    commit_all(&library, "Of its own");
    refused(&stage, None, CheckoutProblem::Diverged);
    git(&library, &["reset", "--quiet", "--hard", "HEAD~1"]);
    serve(&stage, SKILL, None).unwrap();
    // A file that only lies in the data sets must not be taken for one of their commit.
    let datasets = stage.workspace.path("datasets");
    git(&datasets, &["rm", "--quiet", "--cached", "real/meadow_letters/text/larch-data.md"]);
    git(&datasets, &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "--quiet", "-m", "Forget it"]);
    git(&datasets, &["push", "--quiet", stage.github.git_dir(DATASETS).to_str().unwrap(), "main"]);
    refused(&stage, None, CheckoutProblem::Dirty);
}

#[test]
fn a_remote_that_is_down_is_waited_for_a_little_and_then_told() {
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
    // A token without rights, in words that name the repository.
    stage.github.token(TOKEN, "eval-bot", "meadow/other", &[("contents", "read")]);
    let said = refused(&stage, None, CheckoutProblem::Pull);
    insta::assert_snapshot!(said, @r"
    there is no repository at `<server>/meadow/skills.git` that the token can see
    hint: check its name, and that the token may read it (`Contents: read`)
    ");
    stage.token(TOKEN, crate::support::github::TokenKind::Personal, &[("contents", "read")]);
    serve(&stage, SKILL, None).unwrap();
}

#[test]
fn a_clone_that_was_left_locked_is_usable_again() {
    let stage = Stage::new();
    let commit = stage.push(change("new.txt"));
    let lock = stage.workspace.path("library/.git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let said = refused(&stage, None, CheckoutProblem::Pull);
    assert!(said.contains("index.lock"), "{said}");
    // Of a git that is long gone.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    std::fs::File::options().write(true).open(&lock).unwrap().set_modified(long_ago).unwrap();
    assert_eq!(serve(&stage, SKILL, None).unwrap().prompt_commit().as_str(), commit);
}

/// On a file system of its own, which only root may mount, and everybody in a name space of their own.
#[test]
fn a_full_disk_is_told_and_the_clone_is_usable_when_there_is_room() {
    let stage = Stage::new();
    let filler = vec![b'x'; 200_000];
    let noise = |dir: &Path| {
        // What cannot be compressed.
        let bytes: Vec<u8> = (0..filler.len()).map(|_| fastrand::u8(..)).collect();
        std::fs::write(dir.join("large.bin"), bytes).unwrap();
    };
    let commit = stage.push(noise);
    let small = stage.workspace.path("library");
    // The largest file that a process may write stands for a disk without room: git fails half-way, as it does there.
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
