//! Changes that users make in a clone while it is synced: none is lost.

use std::fs;

use super::{Bench, git, git_command};

/// A clone that is one commit behind.
fn behind() -> Bench {
    let bench = Bench::new();
    bench.synced(&[]);
    bench.commit("README.md", "two\n");
    bench
}

fn read(dir: &std::path::Path, file: &str) -> String {
    fs::read_to_string(dir.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn new_files_are_kept_with_a_reset_too() {
    for more in [&[][..], &["--reset"]] {
        let bench = behind();
        bench.write(".git/info/exclude", "*.log\n");
        bench.write("notes.txt", "mine\n");
        if !more.is_empty() {
            bench.write("cases/a.yaml", "changed\n");
        }
        let output = bench.meanwhile(more, || {
            bench.write("results.json", "{}\n");
            bench.write("run.log", "log\n");
            bench.write("new/dir/file", "new\n");
            bench.write("cases/late", "late\n");
            bench.write("notes.txt", "mine, and more\n");
        });
        output.expect(0);
        assert_eq!(bench.kept(), None);
        let own = [
            ("results.json", "{}\n"),
            ("run.log", "log\n"),
            ("new/dir/file", "new\n"),
            ("cases/late", "late\n"),
            ("notes.txt", "mine, and more\n"),
        ];
        assert_eq!(bench.seen(), bench.expected("main", &own));
    }
}

#[test]
fn a_change_and_a_commit_during_a_reset_are_kept() {
    let bench = behind();
    bench.write("cases/a.yaml", "changed\n");
    let output = bench.meanwhile(&["--reset"], || bench.write("cases/a.yaml", "changed again\n")).expect(0);
    let kept = bench.kept().unwrap();
    assert_eq!(read(&kept, "cases/a.yaml"), "changed again\n");
    let told =
        bench.message(&output).replace(&kept.file_name().unwrap().to_string_lossy().into_owned(), "[kept]");
    assert!(
        told.contains(
            "one: the clone was changed during the sync; the old state is kept in `[dir]/clones/[kept]`"
        ),
        "{told}"
    );
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    fs::remove_dir_all(kept).unwrap();
    bench.commit("README.md", "three\n");
    bench.write("cases/a.yaml", "changed\n");
    bench
        .meanwhile(&["--reset"], || drop(git(&bench.clone(), &["commit", "-q", "-a", "-m", "late"])))
        .expect(0);
    assert_eq!(git(&bench.kept().unwrap(), &["log", "-1", "--format=%s"]), "late");
}

#[test]
fn refs_settings_hooks_and_commits_of_other_work_trees_are_kept() {
    let acts: [&dyn Fn(&Bench); 5] = [
        &|bench| drop(git(&bench.clone(), &["tag", "mytag"])),
        &|bench| drop(git(&bench.clone(), &["config", "my.key", "value"])),
        &|bench| bench.write(".git/hooks/pre-push", "#!/bin/sh\n"),
        &|bench| {
            let tree = bench.workspace.path("linked");
            fs::write(tree.join("cases/a.yaml"), "linked\n").unwrap();
            drop(git(&tree, &["commit", "-q", "-a", "-m", "of the linked one"]));
        },
        &|bench| {
            bench.write("cases/a.yaml", "stashed\n");
            drop(git(&bench.clone(), &["stash"]));
        },
    ];
    let found: [&dyn Fn(&std::path::Path) -> bool; 5] = [
        &|dir| git(dir, &["tag"]) == "mytag",
        &|dir| git(dir, &["config", "my.key"]) == "value",
        &|dir| dir.join(".git/hooks/pre-push").exists(),
        &|dir| git(dir, &["log", "-1", "--format=%s", "feature"]) == "of the linked one",
        &|dir| git(dir, &["show", "stash@{0}:cases/a.yaml"]) == "stashed",
    ];
    for (number, (act, is_there)) in acts.iter().zip(found).enumerate() {
        let bench = behind();
        let linked = bench.workspace.path("linked");
        git(&bench.clone(), &["worktree", "add", "-q", "-b", "feature", linked.to_str().unwrap()]);
        bench.meanwhile(&[], || act(&bench)).expect(0);
        let kept = bench.kept().unwrap_or_else(|| panic!("{number}: nothing was kept"));
        assert!(is_there(&kept), "{number}");
        assert_eq!(bench.seen().head, bench.expected("main", &[]).head, "{number}");
    }
}

#[test]
fn reading_changes_nothing() {
    let bench = behind();
    bench.meanwhile(&[], || {
        let mut status = git_command(&bench.clone(), &["status", "--porcelain"]);
        assert!(status.status().unwrap().success());
        drop(git(&bench.clone(), &["log"]));
    });
    assert_eq!(bench.kept(), None);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
}

#[test]
fn repositories_in_the_clone_and_submodules_lose_nothing() {
    let bench = with_submodule();
    git(bench.workspace.root(), &["clone", "-q", "upstream", "clones/one/nested"]);
    bench.commit("README.md", "two\n");
    bench
        .meanwhile(&[], || {
            bench.write("nested/late.txt", "nested\n");
            bench.write("parts/sub/late.txt", "sub\n");
        })
        .expect(0);
    assert_eq!(bench.kept(), None);
    assert_eq!(read(&bench.clone(), "nested/late.txt"), "nested\n");
    assert_eq!(read(&bench.clone(), "parts/sub/late.txt"), "sub\n");
    // The commit exists nowhere else.
    for dir in ["nested", "parts/sub"] {
        bench.commit("README.md", dir);
        let late = || drop(git(&bench.clone().join(dir), &["commit", "-q", "--allow-empty", "-m", "late"]));
        bench.meanwhile(&[], late).expect(0);
        let kept = bench.kept().unwrap();
        let log = if dir == "nested" {
            kept.join(".git/../nested/.git")
        } else {
            kept.join(".git/modules/parts/sub")
        };
        let head = read(&log, "logs/HEAD");
        assert!(head.contains("late"), "{head}");
        fs::remove_dir_all(kept).unwrap();
    }
}

#[test]
fn a_late_file_is_not_written_through_a_link_of_the_new_commit() {
    let bench = behind();
    let outside = bench.workspace.path("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, bench.upstream().join("out")).unwrap();
    bench.commit("README.md", "three\n");
    bench.meanwhile(&[], || bench.write("out/late.txt", "late\n")).expect(0);
    assert!(fs::read_dir(&outside).unwrap().next().is_none());
    assert_eq!(read(&bench.kept().unwrap(), "out/late.txt"), "late\n");
}

#[test]
fn a_reset_also_refuses_a_conflicting_repository() {
    let bench = Bench::new();
    bench.synced(&[]);
    git(bench.workspace.root(), &["clone", "-q", "upstream", "clones/one/sub"]);
    bench.write("sub/README.md", "not committed\n");
    bench.commit("sub/README.md", "theirs\n");
    insta::assert_snapshot!(bench.refused(&["--reset"]), @r"
    one: fetching
    error: one: `sub` is a separate repository, and the new commit has files there

    hint: move it out of the benchmark
    ");
    // The same for a submodule that is replaced by files.
    let bench = with_submodule();
    bench.write("parts/sub/README.md", "not committed\n");
    git(&bench.upstream(), &["rm", "-q", "-f", "--cached", "parts/sub"]);
    fs::remove_dir_all(bench.upstream().join("parts/sub")).unwrap();
    bench.commit("parts/sub/README.md", "theirs\n");
    for more in [&[][..], &["--reset"]] {
        let told = bench.refused(more);
        assert!(told.contains("`parts/sub` is"), "{told}");
    }
}

#[test]
fn an_ignored_file_in_a_submodule_is_not_overwritten() {
    let bench = with_submodule();
    bench.write(".git/modules/parts/sub/info/exclude", "out.log\n");
    bench.write("parts/sub/out.log", "mine\n");
    let sub = bench.workspace.path("sub");
    fs::write(sub.join("out.log"), "theirs\n").unwrap();
    git(&sub, &["add", "."]);
    git(&sub, &["commit", "-q", "-m", "out"]);
    git(&bench.upstream().join("parts/sub"), &["pull", "-q"]);
    bench.commit("README.md", "two\n");
    let told = bench.refused(&[]);
    assert!(
        told.contains("`parts/sub/out.log` is your file, and the submodule now has a file of the same name"),
        "{told}"
    );
}

/// A clone with its submodule, `parts/sub`, fetched.
pub(super) fn with_submodule() -> Bench {
    let bench = Bench::new();
    git(bench.workspace.root(), &["clone", "-q", "upstream", "sub"]);
    let url = format!("file://{}", bench.workspace.path("sub").display());
    git(
        &bench.upstream(),
        &["-c", "protocol.file.allow=always", "submodule", "add", "-q", &url, "parts/sub"],
    );
    git(&bench.upstream(), &["commit", "-q", "-m", "sub"]);
    bench.synced(&["--submodules"]);
    bench
}

#[test]
fn several_resets_in_one_second_each_keep_the_discarded_changes() {
    let bench = Bench::new();
    bench.synced(&[]);
    for round in 0..5 {
        bench.write("README.md", &format!("mine {round}\n"));
        bench.synced(&["--reset"]);
    }
    let saved = git(&bench.clone(), &["for-each-ref", "--format=%(refname)", "refs/before-reset/"]);
    let mut contents: Vec<String> =
        saved.lines().map(|name| git(&bench.clone(), &["show", &format!("{name}:README.md")])).collect();
    contents.sort();
    assert_eq!(contents, ["mine 0", "mine 1", "mine 2", "mine 3", "mine 4"]);
}
