//! A file per skill: pull requests merge in any order, and two of one skill are joined by a command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::stage::{LIBRARY, Stage, git};
use crate::support::{Output, Workspace};

pub(crate) const SKILLS: [&str; 6] = [
    "budget-lines",
    "call-checklist",
    "expense-check",
    "expense-review",
    "grant-letter-extraction",
    "letter-translation",
];

/// A library of six skills with a file for each.
pub(crate) fn split_library() -> (Stage, crate::support::MockLlm) {
    let stage = Stage::new();
    stage.push(|dir| {
        std::fs::write(dir.join(".evaluator/config.yaml"), "leaderboard: split\ncase_details: true\n")
            .unwrap();
        let components = dir.join("components");
        let copied = Command::new("cp")
            .arg("-r")
            .args([components.join("expense-review"), components.join("expense-check")])
            .status();
        assert!(copied.unwrap().success());
    });
    std::fs::remove_dir_all(stage.workspace.path("library")).unwrap();
    stage.clone_of(LIBRARY, "library", &[]);
    let llm = stage.gateway(&[]);
    (stage, llm)
}

fn evaluate(stage: &Stage, skill: &str, more: &[&str]) -> Output {
    let mut args = stage.args(&["-q", "--open-pr"]);
    skill.clone_into(&mut args[1]);
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
    stage.workspace.run(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether git merges a branch without a conflict.
fn merge(dir: &Path, branch: &str) -> bool {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
    let args = ["merge", "--quiet", "--no-ff", "-m", "Merge results", branch];
    Command::new("git").current_dir(dir).args(identity).args(args).output().unwrap().status.success()
}

/// Merges the newest pull request as GitHub does.
fn merge_newest(stage: &Stage) {
    let dir = stage.clone_of(LIBRARY, "merging", &[]);
    let branch = stage.github.pulls().pop().unwrap().head;
    let bare = stage.github.git_dir(LIBRARY);
    assert!(merge(&dir, &format!("origin/{branch}")), "{branch}");
    git(&dir, &["push", "--quiet", bare.to_str().unwrap(), "main"]);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The results of a checkout, and the file that the site publishes.
fn union(workspace: &Workspace, library: &Path) -> (BTreeMap<PathBuf, Vec<u8>>, String) {
    let root = library.join("leaderboard");
    let files = walkdir::WalkDir::new(&root).into_iter().map(Result::unwrap);
    let files = files.filter(|entry| entry.file_type().is_file()).map(|entry| {
        let name = entry.path().strip_prefix(&root).unwrap().to_path_buf();
        (name, std::fs::read(entry.path()).unwrap())
    });
    let args = ["leaderboard", "merge", "-q", root.to_str().unwrap()];
    (files.collect(), workspace.run(&args).expect(0).stdout)
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures")]
fn six_skills_evaluated_without_merging_merge_in_any_order() {
    let (stage, llm) = split_library();
    let base = stage.commit("main");
    for skill in SKILLS {
        evaluate(&stage, skill, &["--replicates", "1"]).expect(0);
    }
    let pulls = stage.github.pulls();
    assert_eq!(pulls.len(), 6);
    for (pull, skill) in pulls.iter().zip(SKILLS) {
        let changed = stage.github.git(LIBRARY, &["diff", "--name-only", &base, &pull.head]);
        let own = |file: &str| {
            file == format!("leaderboard/{skill}.json")
                || file.starts_with(&format!("leaderboard/cases/{skill}/"))
        };
        assert!(changed.lines().all(own), "{changed}");
    }

    let orders = merge_in_any_order(&stage, &base);
    println!("50 rounds of 6 merges, {orders} orders, 0 conflicts, {} calls", llm.counter("ok"));
}

/// Merges the open pull requests of the six skills 50 times: every result equals that of evaluations one after the other, each
/// merged before the next begins. Returns the number of different orders.
pub(crate) fn merge_in_any_order(stage: &Stage, base: &str) -> usize {
    let (sequential, _llm) = split_library();
    assert_eq!(sequential.commit("main"), base, "the same library");
    for skill in SKILLS {
        evaluate(&sequential, skill, &["--replicates", "1", "--git-sha", base]).expect(0);
        merge_newest(&sequential);
    }
    let expected = union(&sequential.workspace, &sequential.clone_of(LIBRARY, "final", &[]));
    let board: Value = serde_json::from_str(&expected.1).unwrap();
    assert_eq!(board["entries"].as_array().unwrap().len(), 18, "six skills on three models");

    let pulls = stage.github.pulls();
    assert_eq!(pulls.len(), 6);
    let dir = stage.clone_of(LIBRARY, "merging", &[]);
    let mut random = fastrand::Rng::with_seed(22);
    let mut orders = std::collections::BTreeSet::new();
    for round in 0..50 {
        let mut order: Vec<&str> = pulls.iter().map(|pull| pull.head.as_str()).collect();
        random.shuffle(&mut order);
        git(&dir, &["checkout", "--quiet", "-B", "merged", base]);
        for branch in &order {
            assert!(merge(&dir, &format!("origin/{branch}")), "round {round}: {order:?}");
        }
        let found = union(&stage.workspace, &dir);
        assert_eq!(found.1, expected.1, "{order:?}");
        assert!(found.0 == expected.0, "{order:?}: other files");
        orders.insert(order);
    }
    orders.len()
}

#[test]
fn two_pull_requests_of_one_skill_conflict_and_a_command_joins_them() {
    let (stage, llm) = split_library();
    let base = stage.commit("main");
    let skill = "letter-translation";
    let file = "leaderboard/letter-translation.json";
    // Two evaluations of one skill: with one replicate, and with two.
    evaluate(&stage, skill, &["--replicates", "1", "--batch-id", "once"]).expect(0);
    evaluate(&stage, skill, &["--replicates", "2", "--batch-id", "twice"]).expect(0);
    let heads: Vec<String> = stage.github.pulls().into_iter().map(|pull| pull.head).collect();
    assert_eq!(heads.len(), 2);
    let paid = llm.counter("ok");

    let dir = stage.clone_of(LIBRARY, "merging", &[]);
    let mut joined = Vec::new();
    for order in [[0, 1], [1, 0]] {
        git(&dir, &["checkout", "--quiet", "-B", "merged", &base]);
        assert!(merge(&dir, &format!("origin/{}", heads[order[0]])));
        assert!(!merge(&dir, &format!("origin/{}", heads[order[1]])), "both add the same file");
        let conflicted = git(&dir, &["diff", "--name-only", "--diff-filter=U"]);
        assert_eq!(conflicted, file, "the details of the cases never conflict");
        let path = dir.join(file);
        let path = path.to_str().unwrap();
        // What the docs say, in the middle of the conflict.
        stage.workspace.run(&["leaderboard", "merge", "-q", "--output", path, path]).expect(0);
        git(&dir, &["add", "leaderboard"]);
        git(&dir, &["commit", "--quiet", "-m", "Merge results"]);
        joined.push(std::fs::read_to_string(path).unwrap());
    }
    assert_eq!(joined[0], joined[1], "whichever was merged first");
    let board: Value = serde_json::from_str(&joined[0]).unwrap();
    assert_eq!(board["entries"].as_array().unwrap().len(), 6, "no entry is lost: {board:#}");

    // The other way: the first is merged, and the second is ordered again.
    git(&dir, &["checkout", "--quiet", "-B", "main", &base]);
    assert!(merge(&dir, &format!("origin/{}", heads[0])));
    git(&dir, &["push", "--quiet", stage.github.git_dir(LIBRARY).to_str().unwrap(), "main"]);
    evaluate(&stage, skill, &["--replicates", "2", "--batch-id", "twice", "--git-sha", &base]).expect(0);
    assert_eq!((llm.counter("ok"), stage.github.pulls().len()), (paid, 2), "no call, no third pull request");
    git(&dir, &["fetch", "--quiet", stage.github.git_dir(LIBRARY).to_str().unwrap(), &heads[1]]);
    assert!(merge(&dir, "FETCH_HEAD"), "the updated pull request merges cleanly");
    assert_eq!(std::fs::read_to_string(dir.join(file)).unwrap(), joined[0]);
}
