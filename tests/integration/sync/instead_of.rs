//! `url.*.insteadOf` of the user's own git configuration.

use super::{Bench, git};
use crate::support::Workspace;
use crate::support::github::{MockGithub, NewRepo};

const SECRET: &str = "github_pat_benchmarks_0003";

#[test]
fn another_server_is_asked_with_the_token_of_that_server() {
    let github = MockGithub::start();
    github.repo(&NewRepo { full_name: "o/bench".into(), private: true, ..NewRepo::default() });
    github.token(SECRET, "reader", "o/bench", &[("contents", "read")]);
    github.put_file("o/bench", "README.md", "one\n");
    let server = &github.urls().server_url;
    let workspace = Workspace::new().env("GITHUB_SERVER_URL", server).env("GH_ENTERPRISE_TOKEN", SECRET);
    workspace
        .write(".gitconfig", format!("[url \"{server}/\"]\n\tinsteadOf = https://git.example.invalid/\n"));
    let bench = Bench { workspace };
    bench.register("url: https://git.example.invalid/o/bench, ref: main");
    for text in ["one", "two"] {
        github.put_file("o/bench", "README.md", text);
        bench.sync(&[]).expect(0);
        let readme = bench.workspace.read("clones/one/README.md");
        assert_eq!(readme, text);
    }
    let origin = git(&bench.clone(), &["config", "remote.origin.url"]);
    assert_eq!(origin, "https://git.example.invalid/o/bench", "the clone keeps the address of the registry");
    let status = bench.workspace.run(&["sync", "--status"]).expect(0);
    assert!(status.stdout.contains("current"), "{}", status.stdout);
}

/// As a job in CI sets it, without a file.
#[test]
fn settings_in_variables_apply() {
    let github = MockGithub::start();
    github.repo(&NewRepo { full_name: "o/bench".into(), private: true, ..NewRepo::default() });
    github.token(SECRET, "reader", "o/bench", &[("contents", "read")]);
    github.put_file("o/bench", "README.md", "one\n");
    let server = &github.urls().server_url;
    let workspace = Workspace::new()
        .env("GITHUB_SERVER_URL", server)
        .env("GH_ENTERPRISE_TOKEN", SECRET)
        .env("GIT_CONFIG_COUNT", "2")
        .env("GIT_CONFIG_KEY_0", "core.fsmonitor")
        .env("GIT_CONFIG_VALUE_0", "touch hacked")
        .env("GIT_CONFIG_KEY_1", &format!("url.{server}/.insteadOf"))
        .env("GIT_CONFIG_VALUE_1", "https://git.example.invalid/");
    let bench = Bench { workspace };
    bench.register("url: https://git.example.invalid/o/bench, ref: main");
    bench.sync(&[]).expect(0);
    assert_eq!(bench.workspace.read("clones/one/README.md"), "one\n");
    assert!(!bench.workspace.path("clones/one/hacked").exists());
}

#[test]
fn ssh_is_used_instead_of_https() {
    let bench = Bench::new();
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\nexec git upload-pack '{}'\n",
        bench.workspace.path("asked").display(),
        bench.upstream().display()
    );
    let ssh = bench.workspace.write_program("ssh", script);
    let configuration = format!(
        "[core]\n\tsshCommand = {}\n[ssh]\n\tvariant = ssh\n[url \"git@git.example.invalid:\"]\n\tinsteadOf = https://git.example.invalid/\n",
        ssh.display()
    );
    bench.workspace.write(".gitconfig", configuration);
    bench.register("url: https://git.example.invalid/o/bench, ref: main");
    bench.sync(&[]).expect(0);
    assert_eq!(bench.seen(), bench.expected("main", &[]));
    let asked = bench.workspace.read("asked");
    assert!(asked.contains("git@git.example.invalid git-upload-pack 'o/bench'"), "{asked}");
}

/// For machines on which only HTTPS passes the firewall.
#[test]
fn https_is_used_instead_of_ssh() {
    let github = MockGithub::start();
    github.repo(&NewRepo { full_name: "o/bench".into(), private: true, ..NewRepo::default() });
    github.token(SECRET, "reader", "o/bench", &[("contents", "read")]);
    github.put_file("o/bench", "README.md", "one\n");
    let server = &github.urls().server_url;
    for (from, url) in [
        ("git@git.example.invalid:", "git@git.example.invalid:o/bench"),
        ("ssh://git@git.example.invalid/", "ssh://git@git.example.invalid/o/bench"),
    ] {
        let workspace = Workspace::new().env("GITHUB_SERVER_URL", server).env("GH_ENTERPRISE_TOKEN", SECRET);
        workspace.write(".gitconfig", format!("[url \"{server}/\"]\n\tinsteadOf = {from}\n"));
        let bench = Bench { workspace };
        bench.register(&format!("url: '{url}', ref: main"));
        bench.sync(&[]).expect(0);
        assert_eq!(bench.workspace.read("clones/one/README.md"), "one\n");
        assert_eq!(git(&bench.clone(), &["config", "remote.origin.url"]), url);
    }
}

#[test]
fn a_directory_and_a_program_are_not_used_instead_of_a_server() {
    let bench = Bench::new();
    let root = bench.workspace.root().display().to_string();
    for base in [format!("{root}/"), format!("file://{root}/"), "ext::sh -c touch% hacked ".to_owned()] {
        let configuration =
            format!("[protocol]\n\tallow = always\n[url \"{base}\"]\n\tinsteadOf = http://127.0.0.1:1/\n");
        bench.workspace.write(".gitconfig", configuration);
        bench.register("url: 'http://127.0.0.1:1/upstream', ref: main");
        let told = bench.refused(&[]);
        assert!(told.contains("`http://127.0.0.1:1/upstream` cannot be reached"), "{base}: {told}");
    }
    assert!(!bench.workspace.path("hacked").exists());
}

#[test]
fn a_missing_git_is_named() {
    let bench = Bench::new();
    bench.synced(&[]);
    let without_git = |args: &[&str]| {
        let mut command = bench.workspace.command(args);
        crate::support::Output::of(command.env("PATH", bench.workspace.path("empty")))
    };
    let output = without_git(&["sync", "one", "--allow-local"]).expect(1);
    insta::assert_snapshot!(bench.message(&output), @r"
    error: one: cannot find `git`

    hint: install git and make sure that it is in `PATH`
    ");
    let output = without_git(&["sync", "--status", "--format", "json"]).expect(0);
    let status: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let status = &status["benchmarks"][0];
    assert_eq!((&status["state"], &status["problem"]["kind"]), (&"unknown".into(), &"missing".into()));
}
