//! git over HTTP, with plain `git`.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{REPO, Sim};
use crate::support::github::{Fault, NewRepo, TOKEN, What};

/// The output of git, and whether it succeeded.
struct Done {
    ok: bool,
    text: String,
}

fn git(sim: &Sim, token: &str, folder: &str, args: &[&str]) -> Done {
    let dir = sim.dir.path().join(folder);
    std::fs::create_dir_all(&dir).unwrap();
    let mut command = Command::new("git");
    command.current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command
        .env("HOME", sim.dir.path())
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C");
    command.args(["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]);
    if !token.is_empty() {
        let credentials = STANDARD.encode(format!("x-access-token:{token}"));
        let header = format!("Authorization: Basic {credentials}");
        command
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "http.extraheader")
            .env("GIT_CONFIG_VALUE_0", header);
    }
    let output = command.args(args).output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Done { ok: output.status.success(), text: text.replace(&sim.github.urls().server_url, "[server]") }
}

fn url(sim: &Sim, repo: &str) -> String {
    format!("{}/{repo}.git", sim.github.urls().server_url)
}

/// A clone with one new commit.
fn clone_with_commit(sim: &Sim, folder: &str) {
    let clone = git(sim, TOKEN, ".", &["clone", "-q", &url(sim, REPO), folder]);
    assert!(clone.ok, "{}", clone.text);
    assert!(git(sim, TOKEN, folder, &["commit", "-q", "--allow-empty", "-m", folder]).ok);
}

fn push(sim: &Sim, folder: &str, refspec: &str) -> Done {
    git(sim, TOKEN, folder, &["push", "origin", refspec])
}

#[test]
fn a_branch_is_pushed_cloned_and_seen_by_the_api() {
    let sim = Sim::new("exit 0");
    clone_with_commit(&sim, "one");
    // Larger than what git sends in one chunk.
    let mut random = fastrand::Rng::with_seed(1);
    let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(3 << 20).collect();
    std::fs::write(sim.dir.path().join("one/large"), &bytes).unwrap();
    assert!(git(&sim, TOKEN, "one", &["add", "."]).ok);
    assert!(git(&sim, TOKEN, "one", &["commit", "-q", "-m", "large"]).ok);
    let pushed = push(&sim, "one", "HEAD:refs/heads/eval-batch/b1");
    assert!(pushed.ok, "{}", pushed.text);
    let head = git(&sim, TOKEN, "one", &["rev-parse", "HEAD"]).text.trim().to_owned();
    assert_eq!(
        sim.client().get("/repos/acme/runner/git/ref/heads/eval-batch/b1").json["object"]["sha"],
        head
    );
    let clone = git(
        &sim,
        TOKEN,
        ".",
        &[
            "clone",
            "-q",
            "--filter=blob:none",
            "--no-checkout",
            "-b",
            "eval-batch/b1",
            &url(&sim, REPO),
            "two",
        ],
    );
    assert!(clone.ok, "{}", clone.text);
    assert!(git(&sim, TOKEN, "two", &["cat-file", "-e", "HEAD:large"]).ok);
    let pushes = sim.github.pushes();
    assert_eq!((pushes.len(), pushes[0].accepted, pushes[0].login.as_str()), (1, true, "dispatcher"));
    assert!(push(&sim, "one", ":refs/heads/eval-batch/b1").ok);
    assert_eq!(sim.github.git(REPO, &["branch", "--list", "eval-batch/*"]), "");
}

#[test]
fn tokens_without_access_cannot_read_or_write() {
    let sim = Sim::new("exit 0");
    sim.github.repo(&NewRepo { full_name: "acme/open".to_owned(), ..NewRepo::default() });
    sim.github.put_file("acme/open", "README.md", "open");
    sim.github.token("reader", "reader", REPO, &[("contents", "read")]);
    sim.github.token("narrow", "narrow", REPO, &[("actions", "write")]);
    let list = |token: &str, repo: &str| git(&sim, token, ".", &["ls-remote", &url(&sim, repo)]);
    assert!(
        list(TOKEN, REPO).ok
            && list("reader", REPO).ok
            && list("", "acme/open").ok
            && list("reader", "acme/open").ok
    );
    clone_with_commit(&sim, "one");
    let as_reader = git(&sim, "reader", "one", &["push", "origin", "HEAD:refs/heads/x"]);
    let last = |done: &Done| done.text.trim().lines().last().unwrap().to_owned();
    let refused =
        [list("", REPO), list("stolen", REPO), list(TOKEN, "acme/none"), list("narrow", REPO), as_reader];
    assert!(refused.iter().all(|done| !done.ok));
    insta::assert_snapshot!(refused.iter().map(last).collect::<Vec<_>>().join("\n"), @r"
    fatal: could not read Username for '[server]': terminal prompts disabled
    fatal: could not read Username for '[server]': terminal prompts disabled
    fatal: repository '[server]/acme/none.git/' not found
    fatal: unable to access '[server]/acme/runner.git/': The requested URL returned error: 403
    fatal: unable to access '[server]/acme/runner.git/': The requested URL returned error: 403
    ");
    assert!(
        refused[4].text.contains("remote: Permission to acme/runner.git denied to reader."),
        "{}",
        refused[4].text
    );
}

#[test]
fn pushes_can_lose_the_race_a_given_number_of_times() {
    let sim = Sim::new("exit 0");
    clone_with_commit(&sim, "one");
    let fault = sim.github.add_fault(&Fault {
        what: What::RefMoved { branch: "eval-results/".into() },
        times: Some(2),
        skip: 0,
    });
    // A branch that does not exist yet cannot be moved.
    assert!(push(&sim, "one", "HEAD:refs/heads/eval-results/b1").ok);
    assert!(git(&sim, TOKEN, "one", &["commit", "-q", "--allow-empty", "-m", "next"]).ok);
    let mut lost = 0;
    loop {
        let pushed = push(&sim, "one", "HEAD:refs/heads/eval-results/b1");
        if pushed.ok {
            break;
        }
        assert!(
            pushed.text.contains("[remote rejected]") || pushed.text.contains("(fetch first)"),
            "{}",
            pushed.text
        );
        lost += 1;
        assert!(git(&sim, TOKEN, "one", &["fetch", "-q", "origin", "eval-results/b1"]).ok);
        assert!(git(&sim, TOKEN, "one", &["reset", "-q", "--soft", "FETCH_HEAD"]).ok);
        assert!(git(&sim, TOKEN, "one", &["commit", "-q", "--allow-empty", "-m", "again"]).ok);
    }
    assert_eq!((lost, sim.github.struck(fault)), (2, 2));
    assert_eq!(sim.github.pushes().iter().filter(|push| push.accepted).count(), 2);
}

#[test]
fn rejected_pushes_have_githubs_messages() {
    let sim = Sim::new("exit 0");
    clone_with_commit(&sim, "one");
    sim.github.fault(What::SecretScanning { branch: "eval-results/".into() });
    let scanned = push(&sim, "one", "HEAD:refs/heads/eval-results/b1");
    assert!(!scanned.ok);
    assert!(
        scanned.text.contains(
            "remote: error: GH013: Repository rule violations found for refs/heads/eval-results/b1."
        ),
        "{}",
        scanned.text
    );
    assert!(scanned.text.contains("remote: - GITHUB PUSH PROTECTION"), "{}", scanned.text);
    assert!(scanned.text.contains("remote:     - Push cannot contain secrets"), "{}", scanned.text);
    let rule = "Cannot create ref due to creations being restricted.".to_owned();
    sim.github.fault(What::Ruleset { branch: "eval-results/".into(), rule });
    let ruled = push(&sim, "one", "HEAD:refs/heads/eval-results/b1");
    let text: Vec<&str> = ruled.text.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    remote: error: GH013: Repository rule violations found for refs/heads/eval-results/b1.
    remote: Review all repository rules at [server]/acme/runner/rules?ref=refs%2Fheads%2Feval-results%2Fb1
    remote:
    remote: - Cannot create ref due to creations being restricted.
    remote:
    To [server]/acme/runner.git
     ! [remote rejected] HEAD -> eval-results/b1 (push declined due to repository rule violations)
    error: failed to push some refs to '[server]/acme/runner.git'
    ");
    assert!(push(&sim, "one", "HEAD:refs/heads/eval-results/b1").ok, "both struck once");
    assert_eq!(
        sim.github.pushes().iter().map(|push| push.accepted).collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[test]
fn files_above_100_mb_are_refused_in_githubs_words() {
    let sim = Sim::new("exit 0");
    clone_with_commit(&sim, "one");
    let large = |bytes: u64| {
        std::fs::File::create(sim.dir.path().join("one/large.bin")).unwrap().set_len(bytes).unwrap();
        assert!(git(&sim, TOKEN, "one", &["add", "."]).ok);
        assert!(git(&sim, TOKEN, "one", &["commit", "-q", "--amend", "-m", "large"]).ok);
        push(&sim, "one", "+HEAD:refs/heads/large")
    };
    let refused = large((100 << 20) + 1);
    let limit =
        "remote: error: File large.bin is 100.00 MB; this exceeds GitHub's file size limit of 100.00 MB";
    assert!(refused.text.contains(limit), "{}", refused.text);
    assert!(refused.text.contains("(pre-receive hook declined)"), "{}", refused.text);
    assert!(large(100 << 20).ok);
}

#[test]
fn a_branch_named_like_the_prefix_blocks_the_push() {
    let sim = Sim::new("exit 0");
    sim.github.put_file_on(REPO, "eval-results", "README.md", "in the way");
    clone_with_commit(&sim, "one");
    let pushed = push(&sim, "one", "HEAD:refs/heads/eval-results/b1");
    assert!(!pushed.ok && pushed.text.contains("[remote rejected]"), "{}", pushed.text);
}
