//! Hostile registries, clones and repositories.

use super::concurrent_edits::with_submodule;
use super::{Bench, git};
use crate::support::Workspace;
use crate::support::github::{MockGithub, NewRepo};

#[test]
fn an_alias_in_a_clone_cannot_replace_a_missing_git_lfs() {
    let bench = Bench::new();
    bench.synced(&[]);
    let pwned = bench.workspace.path("pwned");
    git(&bench.clone(), &["config", "alias.lfs", &format!("!: > {}", pwned.display())]);
    bench.commit("README.md", "two\n");
    // Of git's programs, only git itself: git-lfs may be installed on this machine.
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file()).unwrap();
    std::fs::create_dir(bench.workspace.path("bin")).unwrap();
    std::os::unix::fs::symlink(real, bench.workspace.path("bin/git")).unwrap();
    let mut command = bench.workspace.command(&["sync", "one", "--allow-local", "--lfs"]);
    command.env("PATH", bench.workspace.path("bin"));
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!pwned.exists(), "{stderr}");
    assert!(stderr.contains("`--lfs` needs git-lfs"), "{stderr}");
}

#[test]
fn commands_configured_in_a_clone_are_not_run() {
    let bench = Bench::new();
    bench.commit(".gitattributes", "* filter=evil diff=evil\n*.lfs filter=lfs\n");
    bench.synced(&[]);
    let clone = bench.clone();
    let pwned = bench.workspace.path("pwned");
    let evil = format!("touch {}; cat", pwned.display());
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.editor",
        "core.pager",
        "core.gitProxy",
        "credential.helper",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "filter.lfs.process",
        "filter.lfs.clean",
        "diff.evil.textconv",
        "diff.external",
        "uploadpack.packObjectsHook",
        "remote.origin.uploadpack",
        "remote.origin.vcs",
        "gpg.program",
        "gc.recentObjectsHook",
        "alias.status",
        "alias.read-tree",
    ] {
        git(&clone, &["config", key, &evil]);
    }
    git(&clone, &["config", "core.worktree", "/"]);
    git(&clone, &["config", &format!("url.ext::sh -c {}.insteadOf", evil.replace(' ', "%20")), "/"]);
    git(&clone, &["config", "core.hooksPath", clone.join(".git/hooks").to_str().unwrap()]);
    std::fs::create_dir_all(clone.join(".git/hooks")).unwrap();
    for hook in
        ["post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman"]
    {
        let path = clone.join(".git/hooks").join(hook);
        crate::support::write_program(&path, format!("#!/bin/sh\ntouch {}\n", pwned.display()));
    }
    bench.write(".git/info/attributes", "* filter=evil\n");
    bench.workspace.run(&["sync", "--status", "--allow-local"]).expect(0);
    bench.commit("README.md", "two\n");
    let synced = bench.synced(&[]);
    assert_eq!(synced["change"], "updated");
    assert_eq!(std::fs::read_to_string(clone.join("README.md")).unwrap(), "two\n");
    bench.write("README.md", "three\n");
    bench.synced(&["--reset"]);
    assert!(!pwned.exists(), "something was run");
    // It is still the user's configuration, and stays.
    assert!(std::fs::read_to_string(clone.join(".git/config")).unwrap().contains("filter \"evil\""));
}

#[test]
fn submodules_with_forbidden_transports_are_not_fetched() {
    let bench = Bench::new();
    let pwned = bench.workspace.path("pwned");
    let url = format!("ext::sh -c touch% {}", pwned.display());
    let head = git(&bench.upstream(), &["rev-parse", "HEAD"]);
    git(&bench.upstream(), &["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]);
    std::fs::write(
        bench.upstream().join(".gitmodules"),
        format!("[submodule \"sub\"]\n\tpath = sub\n\turl = {url}\n\tupdate = !touch {}\n", pwned.display()),
    )
    .unwrap();
    git(&bench.upstream(), &["add", ".gitmodules"]);
    git(&bench.upstream(), &["commit", "-q", "-m", "sub"]);
    let told = bench.refused(&["--submodules"]);
    assert!(told.starts_with("one: fetching"), "{told}");
    assert!(!pwned.exists() && !bench.clone().exists(), "{told}");
    let notes = bench.synced(&[])["notes"][0].as_str().unwrap().to_owned();
    assert_eq!(notes, "its submodules were not fetched; `run-evals sync one --submodules` fetches them");
}

#[test]
fn urls_that_run_commands_or_contain_a_password_are_rejected() {
    let bench = Bench::new();
    let refused = |url: &str| {
        bench.register(&format!("url: '{url}', ref: main"));
        let output = bench.sync(&[]).expect(3);
        output.stderr.lines().next().unwrap().to_owned()
    };
    for url in [
        "ext::sh -c id",
        "fd::3",
        "git://host/x",
        "ftp://host/x",
        "-oProxyCommand=id",
        "relative/path",
        "ssh://-oProxyCommand=id/x",
        "-x@host:path",
        "https:///x",
        "https://host/x?y",
        "git@host",
    ] {
        let told = refused(url);
        assert!(told.starts_with("error: `url`: "), "{url}: {told}");
    }
    bench.register("url: 'https://me:hunter2secret@github.com/o/r', ref: main");
    let output = bench.sync(&[]).expect(3);
    insta::assert_snapshot!(bench.message(&output), @r"
    error: `url`: `https://github.com/o/r` contains a user or a password
      --> .agentv/benchmarks.yaml:6:20
       |
     6 |     source: { url: 'https://***@github.com/o/r', ref: main }
       |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: remove the user and the password: git's credential helpers and `GITHUB_TOKEN` authenticate
    ");
    assert!(!output.stderr.contains("hunter2"));
    for url in [bench.upstream().display().to_string(), format!("file://{}", bench.upstream().display())] {
        bench.register(&format!("url: {url}, ref: main"));
        let told = bench.message(&bench.workspace.run(&["sync", "one"]).expect(1));
        assert!(
            told.contains("is a directory on this machine")
                && told.contains("hint: run-evals sync one --allow-local"),
            "{told}"
        );
        bench.synced(&[]);
        std::fs::remove_dir_all(bench.clone()).unwrap();
    }
}

#[test]
fn commands_configured_in_a_submodule_are_not_run() {
    let bench = with_submodule();
    let (clone, pwned) = (bench.clone(), bench.workspace.path("pwned"));
    let module = clone.join("parts/sub");
    let evil = format!("touch {}; cat", pwned.display());
    let keys = [
        "core.fsmonitor",
        "core.sshCommand",
        "filter.evil.clean",
        "filter.evil.smudge",
        "remote.origin.uploadpack",
        "credential.helper",
        "alias.checkout",
    ];
    for key in keys {
        git(&module, &["config", key, &evil]);
    }
    bench.write(".git/modules/parts/sub/info/attributes", "* filter=evil\n");
    let sub = bench.workspace.path("sub");
    let step = |number: u32| {
        std::fs::write(sub.join("README.md"), format!("sub {number}\n")).unwrap();
        git(&sub, &["commit", "-q", "-a", "-m", "more"]);
        git(&bench.upstream().join("parts/sub"), &["pull", "-q"]);
        bench.commit("README.md", &format!("{number}\n"));
    };
    step(1);
    assert_eq!(bench.synced(&[])["change"], "updated");
    step(2);
    bench.write("cases/a.yaml", "mine\n");
    assert_eq!(bench.synced(&["--reset", "--submodules"])["change"], "updated");
    assert_eq!(std::fs::read_to_string(module.join("README.md")).unwrap(), "sub 2\n");
    assert!(!pwned.exists(), "something was run");
    // It is still the user's configuration, and stays.
    let config = std::fs::read_to_string(clone.join(".git/modules/parts/sub/config")).unwrap();
    assert!(config.contains("filter \"evil\"") && config.contains("worktree"), "{config}");
    // A repository elsewhere has its configuration elsewhere.
    std::fs::rename(clone.join(".git/modules/parts/sub"), bench.workspace.path("elsewhere")).unwrap();
    bench.write("parts/sub/.git", &format!("gitdir: {}\n", bench.workspace.path("elsewhere").display()));
    step(3);
    insta::assert_snapshot!(bench.refused(&[]), @r"
    error: one: `parts/sub` is a submodule or inside one, and its repository is not in `.git/modules`

    hint: `git submodule absorbgitdirs` moves it there
    ");
    assert!(!pwned.exists(), "something was run");
}

#[test]
fn a_remote_repository_cannot_have_a_local_submodule() {
    let local = with_submodule();
    let github = MockGithub::start();
    github.repo(&NewRepo { full_name: "o/bench".into(), ..NewRepo::default() });
    github.put_file("o/bench", "README.md", "one\n");
    github.git("o/bench", &["fetch", "-q", local.upstream().to_str().unwrap(), "+main:refs/heads/main"]);
    let bench = Bench { workspace: Workspace::new() };
    bench.register(&format!("url: {}/o/bench.git, ref: main", github.urls().server_url));
    let told = bench.sync(&["--submodules"]).expect(1).stderr;
    assert!(told.contains("transport 'file' not allowed"), "{told}");
    assert!(!bench.clone().exists());
}
