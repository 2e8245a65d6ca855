//! What a sync does: clones, fast-forwards, follows the `ref`, and keeps the user's files.

use super::{Bench, git, git_command, whole};

#[test]
fn the_first_sync_clones_only_the_ref() {
    let bench = Bench::new();
    let first = bench.synced(&[]);
    assert_eq!(first["change"], "cloned");
    assert_eq!(first["commit"], git(&bench.upstream(), &["rev-parse", "HEAD"]));
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    assert_eq!(git(&bench.clone(), &["rev-list", "--count", "HEAD"]), "1");
    assert_eq!(git(&bench.clone(), &["config", "remote.origin.partialclonefilter"]), "blob:none");
    // Every file is local: reading needs no network.
    let mut missing = git_command(&bench.clone(), &["rev-list", "--objects", "--missing=print", "HEAD"]);
    let listed = String::from_utf8(missing.env("GIT_NO_LAZY_FETCH", "1").output().unwrap().stdout).unwrap();
    assert!(!listed.contains('?') && listed.lines().count() > 3, "{listed}");
    // Next to it is only its lock; temporary files are gone.
    let mut names: Vec<_> = std::fs::read_dir(bench.workspace.path("clones"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [".one.sync.lock", "one"]);
    let again = bench.synced(&[]);
    assert_eq!((&again["change"], &again["received_bytes"]), (&"unchanged".into(), &0.into()));
}

#[test]
fn an_empty_directory_is_replaced_and_a_link_is_followed() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.clone()).unwrap();
    bench.synced(&[]);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    let real = bench.workspace.path("elsewhere/real");
    std::fs::create_dir_all(&real).unwrap();
    std::fs::remove_dir_all(bench.clone()).unwrap();
    std::os::unix::fs::symlink(&real, bench.clone()).unwrap();
    bench.synced(&[]);
    assert!(bench.clone().symlink_metadata().unwrap().is_symlink());
    assert_eq!(super::seen(&real), bench.expected("main", &[]));
}

#[test]
fn a_fast_forward_keeps_the_users_files_stashes_branches_and_settings() {
    let bench = Bench::new();
    bench.synced(&[]);
    let clone = bench.clone();
    bench.write("README.md", "stashed\n");
    git(&clone, &["stash"]);
    git(&clone, &["branch", "mine"]);
    git(&clone, &["config", "alias.mine", "log"]);
    bench.write(".git/info/exclude", "results/\n");
    bench.write("results/run-1/rows.jsonl", "{}\n");
    bench.write("notes.txt", "mine\n");
    std::fs::create_dir(clone.join("empty")).unwrap();
    std::os::unix::fs::symlink("/nowhere", clone.join("dangling")).unwrap();
    let inode = |name: &str| std::os::unix::fs::MetadataExt::ino(&clone.join(name).metadata().unwrap());
    let (notes, unchanged) = (inode("notes.txt"), inode("cases/a.yaml"));
    std::fs::remove_file(bench.upstream().join("cases/b.yaml")).unwrap();
    for round in 0..5 {
        bench.commit("README.md", &format!("round {round}\n"));
    }
    let synced = bench.synced(&[]);
    assert_eq!(synced["change"], "updated");
    let mut expected =
        bench.expected("main", &[("results/run-1/rows.jsonl", "{}\n"), ("notes.txt", "mine\n")]);
    expected.files.insert("dangling".into(), (0, b"/nowhere".to_vec()));
    assert_eq!(bench.seen(), expected);
    assert!(!clone.join("cases/b.yaml").exists() && clone.join("empty").is_dir());
    // The same files, not copies of them.
    assert_eq!((inode("notes.txt"), inode("cases/a.yaml")), (notes, unchanged));
    assert_eq!(git(&clone, &["config", "alias.mine"]), "log");
    assert!(git(&clone, &["branch", "--list", "mine"]).contains("mine"));
    assert_eq!(git(&clone, &["show", "stash@{0}:README.md"]), "stashed");
    assert_eq!(bench.workspace.run(&["sync", "one", "--allow-local", "-q"]).expect(0).stderr, "");
}

#[test]
fn the_ref_is_followed_to_branches_tags_and_commits() {
    let bench = Bench::new();
    let upstream = bench.upstream();
    let source = |reference: &str| format!("url: {}, ref: '{reference}'", upstream.display());
    let first = git(&upstream, &["rev-parse", "HEAD~2"]);
    git(&upstream, &["tag", "light", "HEAD~1"]);
    git(&upstream, &["tag", "-a", "v1", "-m", "one"]);
    git(&upstream, &["checkout", "-q", "-b", "feature/x", "HEAD~2"]);
    let feature = bench.commit("feature.txt", "x\n");
    bench.synced(&[]);
    for (reference, branch) in [
        ("feature/x", "feature/x"),
        ("light", "HEAD"),
        ("v1", "HEAD"),
        (first.as_str(), "HEAD"),
        ("main", "main"),
    ] {
        bench.register(&source(reference));
        assert_eq!(bench.synced(&[])["change"], "updated", "{reference}");
        git(&upstream, &["checkout", "-q", reference]);
        assert_eq!(bench.seen(), bench.expected(branch, &[]), "{reference}");
        assert_eq!(bench.synced(&[])["change"], "unchanged", "{reference}");
    }
    // Without a `ref`, the default branch.
    git(&upstream, &["checkout", "-q", "feature/x"]);
    bench.register(&format!("url: {}", upstream.display()));
    assert_eq!(bench.synced(&[])["commit"], feature);
    assert_eq!(bench.seen(), bench.expected("feature/x", &[]));
}

#[test]
fn a_commit_can_be_cloned_first() {
    let bench = Bench::new();
    let first = git(&bench.upstream(), &["rev-parse", "HEAD~1"]);
    bench.register(&format!("url: {}, ref: {first}", bench.upstream().display()));
    assert_eq!(bench.synced(&[])["commit"], first);
    git(&bench.upstream(), &["checkout", "-q", &first]);
    assert_eq!(bench.seen(), bench.expected("HEAD", &[]));
}

#[test]
fn a_tag_is_followed_forward_but_not_elsewhere() {
    let bench = Bench::new();
    let upstream = bench.upstream();
    git(&upstream, &["tag", "v1"]);
    bench.register(&format!("url: {}, ref: v1", upstream.display()));
    bench.synced(&[]);
    let next = bench.commit("README.md", "two\n");
    git(&upstream, &["tag", "--force", "v1"]);
    assert_eq!(bench.synced(&[])["commit"], next);
    git(&upstream, &["checkout", "-q", "HEAD~2"]);
    bench.commit("README.md", "elsewhere\n");
    git(&upstream, &["tag", "--force", "v1"]);
    assert!(bench.refused(&[]).contains("was force-pushed"));
    bench.synced(&["--reset"]);
    assert_eq!(bench.seen(), bench.expected("HEAD", &[]));
}

#[test]
fn a_clone_with_full_history_keeps_it() {
    let bench = Bench::new();
    git(bench.workspace.root(), &["clone", "-q", bench.upstream().to_str().unwrap(), "clones/one"]);
    let next = bench.commit("README.md", "two\n");
    assert_eq!(bench.synced(&[])["commit"], next);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    assert_eq!(git(&bench.clone(), &["rev-list", "--count", "HEAD"]), "4");
}

#[test]
fn a_fast_forward_does_not_depend_on_commit_dates() {
    let bench = Bench::new();
    bench.synced(&[]);
    // Newer commits with older dates: a date does not find them.
    for round in 0..3 {
        std::fs::write(bench.upstream().join("README.md"), format!("{round}\n")).unwrap();
        let mut commit = git_command(&bench.upstream(), &["commit", "-q", "-a", "-m", "old"]);
        commit.env("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z");
        assert!(commit.status().unwrap().success());
    }
    assert_eq!(bench.synced(&[])["change"], "updated");
    assert_eq!(bench.seen(), bench.expected("main", &[]));
}

#[test]
fn a_failed_benchmark_does_not_stop_the_others_and_local_ones_are_untouched() {
    let bench = Bench::new();
    let upstream = bench.upstream().display().to_string();
    bench.workspace.write("mine/file.txt", "mine\n");
    let registry = format!(
        "benchmarks:\n  - {{id: broken, path: c/broken, source: {{url: {upstream}, ref: nowhere}}}}\n  - {{id: local, path: mine}}\n  \
         - {{id: a, path: c/a, source: {{url: {upstream}, ref: main}}}}\n  - {{id: b, path: c/b, source: {{url: {upstream}}}}}\n"
    );
    bench.workspace.write("all.yaml", &registry);
    let before = whole(&bench.workspace.path("mine"));
    let output = bench
        .workspace
        .run(&["sync", "--all", "--registry", "all.yaml", "--allow-local", "-q", "--jobs", "2"])
        .expect(1);
    let commit = &git(&bench.upstream(), &["rev-parse", "HEAD"])[..12];
    let table = output.stdout.replace(commit, "[commit]");
    let table: Vec<&str> = table.lines().map(|line| line.rsplit_once("  ").unwrap().0.trim()).collect();
    assert_eq!(
        table,
        [
            "id      sync    ref        commit",
            "broken  failed  nowhere    –",
            "a       cloned  main       [commit]",
            "b       cloned  (default)  [commit]"
        ]
    );
    insta::assert_snapshot!(bench.message(&output), @r"
    error: broken: `nowhere` is neither a branch nor a tag of `[dir]/upstream`

    hint: change `source.ref` of `broken` in `[dir]/all.yaml`
    ");
    for id in ["a", "b"] {
        assert_eq!(super::seen(&bench.workspace.path(&format!("c/{id}"))), bench.expected("main", &[]));
    }
    let local =
        bench.workspace.run(&["sync", "local", "--registry", "all.yaml", "--format", "json"]).expect(0);
    assert!(local.stdout.contains("\"change\": \"local\""), "{}", local.stdout);
    assert_eq!(whole(&bench.workspace.path("mine")), before);
    // The registry is never written.
    assert_eq!(bench.workspace.read("all.yaml"), registry);
}
