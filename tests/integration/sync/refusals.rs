//! What a sync refuses without changes, and what `--reset` does in each case.

use super::{Bench, git, whole};

#[test]
fn changed_files_staged_or_not() {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.commit("README.md", "two\n");
    bench.write("README.md", "mine\n");
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `[dir]/clones/one` has local changes: `README.md`

    hint: git -C [dir]/clones/one stash, or run-evals sync one --reset --allow-local
    ");
    git(&bench.clone(), &["add", "README.md"]);
    assert!(bench.refused(&[]).contains("local changes: `README.md`"));
    let reset = bench.synced(&["--reset"]);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    // Discarded changes are kept.
    let saved = reset["saved"].as_str().unwrap();
    assert_eq!(git(&bench.clone(), &["show", &format!("{saved}:README.md")]), "mine");
}

#[test]
fn a_new_file_that_the_commit_also_has_even_if_it_is_ignored() {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.write(".git/info/exclude", "new.txt\n");
    bench.write("new.txt", "mine\n");
    bench.commit("new.txt", "theirs\n");
    insta::assert_snapshot!(bench.refused(&["-q"]), @r"
    error: one: `new.txt` is yours, and the new commit has a file of that name

    hint: mv [dir]/clones/one/new.txt [dir]/clones/one/new.txt.mine && run-evals sync one
    ");
    let reset = bench.synced(&["--reset"]);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    let saved = reset["saved"].as_str().unwrap();
    assert_eq!(git(&bench.clone(), &["show", &format!("{saved}:new.txt")]), "mine");
}

#[test]
fn local_commits() {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.write("README.md", "mine\n");
    git(&bench.clone(), &["commit", "-q", "-a", "-m", "mine"]);
    let mine = git(&bench.clone(), &["rev-parse", "HEAD"]);
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `[dir]/clones/one` has 1 commit that `[dir]/upstream` does not have

    hint: git -C [dir]/clones/one push, or run-evals sync one --reset --allow-local
    ");
    bench.commit("cases/a.yaml", "a: 2\n");
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `[dir]/clones/one` and `[dir]/upstream` have diverged: each has commits that the other does not have

    hint: run-evals sync one --reset --allow-local
    ");
    let reset = bench.synced(&["--reset"]);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    assert_eq!(git(&bench.clone(), &["rev-parse", reset["saved"].as_str().unwrap()]), mine);
}

#[test]
fn rewritten_or_rewound_history() {
    let bench = Bench::new();
    bench.synced(&[]);
    let upstream = bench.upstream();
    git(&upstream, &["commit", "-q", "--amend", "-m", "rewritten", "--date", "2030-01-01T00:00:00Z"]);
    bench.commit("README.md", "three\n");
    insta::assert_snapshot!(bench.refused(&[]).replace(&git(&bench.clone(), &["rev-parse", "HEAD"])[..12], "[commit]"), @r"
    error: one: `[dir]/upstream` was force-pushed: its history no longer has [commit], which `[dir]/clones/one` is at

    hint: run-evals sync one --reset --allow-local
    ");
    bench.synced(&["--reset"]);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    git(&upstream, &["reset", "-q", "--hard", "HEAD~2"]);
    assert!(bench.refused(&[]).contains("was force-pushed"));
    bench.synced(&["--reset"]);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
}

#[test]
fn a_branch_or_commit_checked_out_by_hand() {
    let bench = Bench::new();
    bench.synced(&[]);
    git(&bench.clone(), &["checkout", "-q", "--detach"]);
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `[dir]/clones/one` has the commit [commit] by itself checked out, but the last sync left `main` there

    hint: git -C [dir]/clones/one switch main
    ");
    git(&bench.clone(), &["checkout", "-q", "-b", "mine"]);
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `[dir]/clones/one` has the branch `mine` checked out, but the last sync left `main` there

    hint: git -C [dir]/clones/one switch main
    ");
    bench.synced(&["--reset"]);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
}

#[test]
fn a_deleted_branch() {
    let bench = Bench::new();
    git(&bench.upstream(), &["checkout", "-q", "-b", "soon-gone"]);
    bench.register(&format!("url: {}, ref: soon-gone", bench.upstream().display()));
    bench.synced(&[]);
    git(&bench.upstream(), &["checkout", "-q", "main"]);
    git(&bench.upstream(), &["branch", "-D", "soon-gone"]);
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `soon-gone` is neither a branch nor a tag of `[dir]/upstream`

    hint: change `source.ref` of `one` in `[dir]/.agentv/benchmarks.yaml`
    ");
    assert!(bench.refused(&["--reset"]).contains("`soon-gone` is neither a branch"));
}

#[test]
fn a_missing_commit() {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.register(&format!("url: {}, ref: '{}'", bench.upstream().display(), "1".repeat(40)));
    insta::assert_snapshot!(bench.refused(&["-q"]), @r"
    error: one: ref `1111111111111111111111111111111111111111` of `[dir]/upstream` not found, or not accessible with this token

    hint: change `source.ref` of `one` in `[dir]/.agentv/benchmarks.yaml`
    ");
}

#[test]
fn a_directory_that_is_not_a_clone_even_with_reset() {
    let bench = Bench::new();
    bench.write("mine.txt", "mine\n");
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `[dir]/clones/one` has files and is not a clone

    hint: mv [dir]/clones/one [dir]/clones/one.old && run-evals sync one
    ");
    assert!(bench.refused(&["--reset"]).contains("is not a clone"));
    // A surrounding repository does not make it one.
    git(bench.workspace.root(), &["init", "-q", "clones"]);
    assert!(
        bench.refused(&["--reset"]).contains("is not a clone, but part of the repository `[dir]/clones`")
    );
    // A broken clone does not count.
    std::fs::create_dir_all(bench.clone().join(".git")).unwrap();
    assert!(bench.refused(&["--reset"]).contains("cannot be read as a clone"));
}

#[test]
fn a_file_a_dangling_link_and_a_work_tree_of_another_repository() {
    let bench = Bench::new();
    bench.workspace.write("clones/one", "a file\n");
    insta::assert_snapshot!(bench.refused(&["--reset"]), @r"
    error: one: `[dir]/clones/one` is not a directory

    hint: mv [dir]/clones/one [dir]/clones/one.old && run-evals sync one
    ");
    std::fs::remove_file(bench.clone()).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", bench.clone()).unwrap();
    assert!(bench.refused(&[]).contains("is a dangling link"));
    std::fs::remove_file(bench.clone()).unwrap();
    git(&bench.upstream(), &["worktree", "add", "-q", "-b", "linked", bench.clone().to_str().unwrap()]);
    assert!(bench.refused(&["--reset"]).contains("is a work tree whose repository is elsewhere"));
}

#[test]
fn a_clone_of_another_repository() {
    let bench = Bench::new();
    bench.synced(&[]);
    let other = bench.workspace.path("other");
    git(bench.workspace.root(), &["clone", "-q", "upstream", "other"]);
    git(&other, &["config", "uploadpack.allowFilter", "true"]);
    std::fs::write(other.join("other.txt"), "other\n").unwrap();
    git(&other, &["add", "."]);
    git(&other, &["commit", "-q", "-m", "other"]);
    bench.register(&format!("url: {}, ref: main", other.display()));
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `[dir]/clones/one` is a clone of `[dir]/upstream`, not of `[dir]/other`

    hint: run-evals sync one --reset --allow-local
    ");
    bench.synced(&["--reset"]);
    let mut expected = super::seen(&other);
    "main".clone_into(&mut expected.branch);
    assert_eq!(bench.seen(), expected);
    assert_eq!(git(&bench.clone(), &["config", "remote.origin.url"]), other.to_str().unwrap());
    assert_eq!(bench.synced(&[])["change"], "unchanged");
}

#[test]
fn a_read_only_directory() {
    let bench = Bench::new();
    // Read-only for everyone, even root.
    let registry = format!(
        "benchmarks:\n  - {{id: one, path: /sys/benchmarks/one, source: {{url: {}}}}}\n",
        bench.upstream().display()
    );
    bench.workspace.write(".agentv/benchmarks.yaml", registry);
    let told = bench.message(&bench.sync(&[]).expect(1));
    assert!(told.starts_with("error: one: cannot make `/sys/benchmarks`: "), "{told}");
    assert!(
        told.ends_with(
            "hint: let this user write to /sys/benchmarks and to everything in /sys/benchmarks/one"
        ),
        "{told}"
    );
}

#[test]
fn a_full_disk() {
    let bench = Bench::new();
    bench.commit("large.bin", &"0123456789abcdef".repeat(1 << 16));
    // To git, a file size limit looks like a full disk.
    let mut command = std::process::Command::new("sh");
    let line = format!(
        "trap '' XFSZ; ulimit -f 200; exec {} sync one --allow-local",
        env!("CARGO_BIN_EXE_run-evals")
    );
    let output = bench.workspace.like(command.args(["-c", &line])).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(whole(&bench.workspace.path("clones")).is_empty(), "something was left");
    bench.synced(&[]);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
}

#[test]
fn a_missing_and_an_unknown_benchmark() {
    let bench = Bench::new();
    insta::assert_snapshot!(bench.message(&bench.workspace.run(&["sync"]).expect(2)), @r"
    error: name the benchmarks to sync, or use `--all`

    hint: there are `one`
    ");
    insta::assert_snapshot!(bench.message(&bench.workspace.run(&["sync", "oen"]).expect(3)), @r"
    error: no benchmark `oen` in `[dir]/.agentv/benchmarks.yaml`

    hint: did you mean `one`?
    ");
    assert!(!bench.workspace.path("clones").exists());
}

#[test]
fn a_running_git_in_the_clone() {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.write(".git/index.lock", "");
    bench.synced(&[]);
    bench.commit("README.md", "two\n");
    insta::assert_snapshot!(bench.refused(&["--reset"]), @r"
    error: one: another git process runs in `[dir]/clones/one`, or was killed there

    hint: wait for it to finish; if there is none, rm [dir]/clones/one/.git/index.lock
    ");
    std::fs::remove_file(bench.clone().join(".git/index.lock")).unwrap();
    bench.synced(&[]);
}

#[test]
fn a_mount_point_is_refused_before_any_fetch() {
    let bench = Bench::new();
    let registry = "benchmarks:\n  - {id: one, path: /proc, source: {url: /nowhere/at/all}}\n";
    bench.workspace.write(".agentv/benchmarks.yaml", registry);
    insta::assert_snapshot!(bench.message(&bench.sync(&[]).expect(1)), @r"
    error: one: `/proc` is a mount point, which cannot be replaced in one step

    hint: mount the directory above it, and let `path` be a directory in it
    ");
}

#[test]
fn a_branch_name_is_quoted_in_the_suggested_command() {
    let bench = Bench::new();
    let name = "m;touch${IFS}here";
    git(&bench.upstream(), &["checkout", "-q", "-b", name]);
    bench.register(&format!("url: {}", bench.upstream().display()));
    bench.synced(&[]);
    git(&bench.clone(), &["checkout", "-q", "-b", "mine"]);
    let told = bench.refused(&[]);
    assert!(told.ends_with("hint: git -C [dir]/clones/one switch 'm;touch${IFS}here'"), "{told}");
}

#[test]
fn a_clone_that_is_part_of_another_repository() {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.write(".git/commondir", "../../../upstream/.git\n");
    assert!(bench.refused(&["--reset"]).contains("is a work tree whose repository is elsewhere"));
}
