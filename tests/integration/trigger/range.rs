//! Which commits a push brought: new branches, rewritten histories, more than GitHub lists at once, and other events.

use serde_json::Value;

use super::history::{History, REPO, names, path, prompt};
use super::{Trigger, bumps, event};

const ZEROS: &str = "0000000000000000000000000000000000000000";

fn fired(skill: &str, commit: &str) -> Vec<(String, String)> {
    vec![(skill.to_owned(), commit.to_owned())]
}

fn two_bumps() -> History {
    bumps::before()
        .commit("alpha 1.1.0", &[(&path("alpha"), prompt("1.1.0"))])
        .commit("beta 2.0.0", &[(&path("beta"), prompt("2.0.0"))])
}

#[test]
fn a_new_branch_is_compared_with_the_parent_of_its_last_commit() {
    let stage = Trigger::new(&two_bumps());
    let names = names(&stage.github);
    stage.push(ZEROS, names.of("beta 2.0.0")).expect(0);
    assert_eq!(stage.fired(), fired("beta", names.of("beta 2.0.0")));
}

#[test]
fn in_the_root_commit_everything_is_new() {
    let history = History::new(1).commit("first", &[(&path("alpha"), prompt("1.0.0"))]);
    let stage = Trigger::new(&history);
    let names = names(&stage.github);
    stage.push(ZEROS, names.of("first")).expect(0);
    assert_eq!(stage.fired(), fired("alpha", names.of("first")));
}

#[test]
fn the_event_of_a_push_is_read() {
    let stage = Trigger::new(&two_bumps());
    let names = names(&stage.github);
    let path = stage.workspace.path("event.json");
    let run = |name: &str| {
        let url = stage.service.url();
        let mut command = stage.workspace.command(&["trigger", "--url", &url, "--format", "json"]);
        command.env("GITHUB_EVENT_NAME", name).env("GITHUB_EVENT_PATH", &path).env("GITHUB_REPOSITORY", REPO);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    event(&path, "refs/heads/main", names.of("before"), names.of("alpha 1.1.0"));
    let (code, stdout, _) = run("push");
    assert_eq!((code, stage.fired()), (Some(0), fired("alpha", names.of("alpha 1.1.0"))));
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(told["range"]["base"], names.of("before"));
    assert_eq!(told["components"][0]["outcome"], "fired");
    assert_eq!(told["github_requests"], 3);
    // Its before and after belong to a branch that may never be merged.
    let (code, _, stderr) = run("pull_request");
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(stderr, @r"
    error: no skill and no push to evaluate

    hint: pass a skill, or a push with `--before` and `--after`
    ");
    event(&path, "refs/tags/v1", names.of("before"), names.of("alpha 1.1.0"));
    assert_eq!(
        run("push"),
        (Some(0), String::new(), "`refs/tags/v1` is not a branch: nothing to evaluate\n".to_owned())
    );
    event(&path, "refs/heads/main", names.of("before"), ZEROS);
    assert_eq!(
        run("push"),
        (Some(0), String::new(), "the branch was deleted: nothing to evaluate\n".to_owned())
    );
    assert_eq!(stage.fired().len(), 1);
}

#[test]
fn a_rewritten_history_is_compared_with_the_merge_base() {
    let stage = Trigger::new(&two_bumps());
    let old = names(&stage.github).of("beta 2.0.0").to_owned();
    let before = names(&stage.github).of("before").to_owned();
    let from = format!("from {before}\n");
    let anew =
        History::new(2).commit_on("main", "alpha 1.1.0, better", &from, &[(&path("alpha"), prompt("1.1.0"))]);
    anew.add_to(&stage.github);
    let new = stage.github.git(REPO, &["rev-parse", "main"]);
    let output = stage.push(&old, &new).expect(0);
    assert_eq!(stage.fired(), fired("alpha", &new));
    let told = output.stderr.replace(&before[..7], "<before>");
    insta::assert_snapshot!(told, @"warning: the history was rewritten: checked the commits since the merge base `<before>`");
}

#[test]
fn without_the_commit_before_only_the_last_commit_is_checked() {
    let stage = Trigger::new(&two_bumps());
    let names = names(&stage.github);
    let output = stage.push("1234567890123456789012345678901234567890", names.of("beta 2.0.0")).expect(0);
    assert_eq!(stage.fired(), fired("beta", names.of("beta 2.0.0")));
    let told = output.stderr.replace(&names.of("beta 2.0.0")[..7], "<after>");
    insta::assert_snapshot!(told, @"warning: GitHub cannot compare `1234567` with `<after>`: only the last commit was checked");
}

#[test]
fn more_files_than_github_compares_are_found_in_the_trees() {
    let many: Vec<(String, Option<String>)> = (0..320)
        .map(|i| (format!("components/aaa/evals/cases/c{i:03}/input.md"), Some(format!("{i}"))))
        .collect();
    let many: Vec<(&str, Option<String>)> =
        many.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
    let history =
        two_bumps().commit("many files", &many).commit("zeta 2.0.0", &[(&path("zeta"), prompt("2.0.0"))]);
    let stage = Trigger::new(&history);
    let names = names(&stage.github);
    for _ in 0..3 {
        stage.service.answer(202, r#"{"job_id":"job-1"}"#);
    }
    stage.push(names.of("before"), names.of("zeta 2.0.0")).expect(0);
    let commits = [("alpha", "alpha 1.1.0"), ("beta", "beta 2.0.0"), ("zeta", "zeta 2.0.0")];
    assert_eq!(stage.fired(), commits.map(|(skill, commit)| (skill.to_owned(), names.of(commit).to_owned())));
    assert_eq!(stage.github.calls_of("GET /repos/{owner}/{repo}/git/trees/{tree_sha}"), 4);
}

#[test]
fn the_commit_is_found_in_a_truncated_range() {
    let mut history = bumps::before();
    for i in 0..60 {
        history = history.commit(&format!("readme {i}"), &[("README.md", Some(format!("{i}")))]);
    }
    history = history
        .commit("alpha 1.1.0", &[(&path("alpha"), prompt("1.1.0"))])
        .commit("alpha 1.1.1", &[(&path("alpha"), prompt("1.1.1"))]);
    for i in 60..120 {
        history = history.commit(&format!("readme {i}"), &[("README.md", Some(format!("{i}")))]);
    }
    let stage = Trigger::new(&history);
    let names = names(&stage.github);
    stage.push(names.of("before"), names.of("readme 119")).expect(0);
    assert_eq!(stage.fired(), fired("alpha", names.of("alpha 1.1.0")));
    // The comparison, the prompt at both ends, the list, and the prompt at three commits.
    assert_eq!(stage.github.counted("reader"), 7);
}

#[test]
fn errors_of_github_are_reported() {
    let stage = Trigger::new(&two_bumps());
    let names = names(&stage.github);
    let unknown = "1234567890123456789012345678901234567890";
    let output = stage.push(names.of("before"), unknown);
    assert_eq!((output.code, stage.fired().len()), (Some(1), 0));
    stage.github.forget_violations();
    insta::assert_snapshot!(output.stderr, @"error: cannot read the commits `1234567890123456789012345678901234567890` of `meadow/prompt-library`: GitHub returned 422: No commit found for SHA: 1234567890123456789012345678901234567890");
    let output = stage.push("HEAD~1", names.of("before")).expect(2);
    insta::assert_snapshot!(output.stderr, @r"
    error: `--before` is not a commit: `HEAD~1`: a commit has 40 lower-case hexadecimal digits

    hint: pass a skill, or a push with `--before` and `--after`
    ");
}
