//! Writing the bundle directory: complete or absent, never over another directory, and what it contains.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;

use super::{ECHO, check_out, commit, contents, left_behind, manifest, repository, workspace};

const SUITE: (&str, &str) = ("suite.eval.yaml", "tests:\n  - {id: one, criteria: c, input: hello}\n");

#[test]
fn the_output_of_bundle() {
    let workspace = repository(&[ECHO, SUITE]).env("SOURCE_DATE_EPOCH", "1700000000");
    let output = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out"]).expect(0);
    let digest = sha256(&workspace.path("out/manifest.json"));
    assert_snapshot!(output.stdout.replace(&digest, "[DIGEST]"), @r"
    bundle   out
    sha256   [DIGEST]
    agentv   unknown
    tests    1
    targets  default
    files    3
    ");
    assert_eq!(output.stderr, "");
    assert_eq!(manifest(&workspace.path("out"))["created"], "2023-11-14T22:13:20Z");
    let output =
        workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out", "--format", "json"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((json["unchanged"].clone(), json["sha256"].clone()), (true.into(), digest.into()));
}

#[test]
fn a_foreign_directory_is_never_overwritten() {
    let workspace = repository(&[ECHO, SUITE]);
    workspace.write("mine/work.txt", "mine");
    let output = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "mine", "--force"]).expect(2);
    assert_snapshot!(output.stderr.replace(workspace.root().to_str().unwrap(), "[ROOT]"), @r"
    error: `[ROOT]/mine` exists and is not a bundle

    hint: choose a new directory with `-o`
    ");
    assert_eq!(workspace.read("mine/work.txt"), "mine");
    std::fs::create_dir(workspace.path("empty")).unwrap();
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "empty"]).expect(0);
    workspace.write("repo/suite.eval.yaml", "tests:\n  - {id: two, criteria: c, input: hello}\n");
    let before = contents(&workspace.path("empty"));
    let output = workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "empty"]).expect(2);
    assert_snapshot!(output.stderr.replace(workspace.root().to_str().unwrap(), "[ROOT]"), @r"
    error: `[ROOT]/empty` is another bundle

    hint: `--force` replaces it
    ");
    assert_eq!(contents(&workspace.path("empty")), before);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "empty", "--force"]).expect(0);
    assert_ne!(contents(&workspace.path("empty")), before);
    let names: Vec<_> =
        std::fs::read_dir(workspace.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("run-evals-work-")), "{names:?}");
}

#[test]
fn modes_links_and_bytes_are_preserved() {
    let workspace = workspace();
    let suite = check_out(&workspace, "symlinks", "repo");
    workspace.run(&["bundle", suite.to_str().unwrap(), "-q", "-o", "out"]).expect(0);
    let found = contents(&workspace.path("out"));
    let listed: String = found
        .iter()
        .map(|(path, (mode, content))| match mode {
            0 => format!("{} -> {}\n", path.display(), String::from_utf8_lossy(content)),
            mode => format!("{} {mode:o}\n", path.display()),
        })
        .collect();
    assert_snapshot!(listed, @r"
    eval.yaml 644
    manifest.json 644
    scripts/evals/scripts/check.sh -> ../../tools/check.sh
    scripts/tools/check.sh 755
    scripts/tools/lib.sh 644
    targets.yaml 644
    workspace/evals/template/notes.txt -> real/notes.txt
    workspace/evals/template/real/notes.txt 644
    ");
    let mode = std::fs::metadata(workspace.path("out")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn files_left_out_are_named() {
    let workspace = repository(&[
        ECHO,
        ("suite.eval.yaml", "workspace: {template: ./t}\ntests:\n  - {id: one, criteria: c, input: hello}\n"),
        ("t/package.json", "{}"),
        ("t/package-lock.json", "{}"),
        ("t/node_modules/a/index.js", ""),
        ("t/__pycache__/a.pyc", ""),
        ("t/.env", "SECRET=x"),
        ("t/kept.txt", "kept"),
    ]);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out"]).expect(0);
    let left: String =
        left_behind(&workspace.path("out")).iter().map(|(what, why)| format!("{what}: {why}\n")).collect();
    assert_snapshot!(left, @r"
    t/.env: files with secrets never travel: set the variables there
    t/__pycache__: a cache: it is recreated when needed
    t/node_modules: packages: `package-lock.json` beside `package.json` restores them
    ");
    let found = contents(&workspace.path("out"));
    assert!(found.keys().any(|path| path.ends_with("t/kept.txt")));
    assert!(
        !found.keys().any(|path| path.to_string_lossy().contains("node_modules") || path.ends_with(".env"))
    );
}

#[test]
fn repositories_are_pinned() {
    let workspace = repository(&[ECHO, SUITE]);
    workspace.write("other/x.txt", "x");
    commit(&workspace, "other");
    let head = std::process::Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(workspace.path("other"))
        .output()
        .unwrap();
    let head = String::from_utf8(head.stdout).unwrap().trim().to_owned();
    let url = format!("file://{}", workspace.path("other").display());
    let pinned = "0123456789012345678901234567890123456789";
    workspace.write(
        "repo/suite.eval.yaml",
        format!("workspace:\n  repos:\n    - {{path: ./a, repo: '{url}'}}\n    - {{path: ./b, repo: '{url}', commit: '{pinned}'}}\n    - {{path: ./c, repo: '{url}', commit: gone}}\ntests:\n  - {{id: one, criteria: c, input: hello}}\n"),
    );
    let output = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out"]).expect(0);
    assert!(output.stderr.contains("has no `gone`, so it is not pinned"), "{}", output.stderr);
    let eval = workspace.read("out/eval.yaml");
    assert!(eval.contains(&format!("commit: {}", quoted(&head))) && eval.contains(pinned), "{eval}");
    let why: Vec<String> = left_behind(&workspace.path("out")).into_iter().map(|(_, why)| why).collect();
    assert!(
        why.iter().any(|why| why.contains(&head)) && why.iter().any(|why| why.contains("may move")),
        "{why:?}"
    );
    workspace.write(
        "repo/suite.eval.yaml",
        "workspace:\n  repos: [{path: a, repo: 'https://me:word@example.com/x'}]\ntests: []\n",
    );
    let told = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out2"]).expect(3).stderr;
    assert_snapshot!(told, @r"
    error: the URL of the repository contains a password
      --> suite.eval.yaml:2:27

    hint: let git find the credentials where the bundle runs
    ");
}

#[test]
fn a_modified_bundle_is_rejected() {
    let workspace = repository(&[ECHO, SUITE]);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out"]).expect(0);
    let sound = workspace.run(&["bundle", "verify", "out"]).expect(0).stdout;
    assert!(sound.starts_with("out is valid: 3 files, manifest "), "{sound}");
    workspace.write("out/eval.yaml", "tests: []\n");
    workspace.write("out/more.txt", "x");
    std::fs::set_permissions(workspace.path("out/targets.yaml"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    std::fs::remove_file(workspace.path("out/scripts/.keep")).unwrap();
    assert_snapshot!(workspace.run(&["bundle", "verify", "out"]).expect(3).stderr, @r"
    error: `out` does not match its manifest:
      `eval.yaml` has 10 bytes, not 88
      `scripts/.keep` is missing
      `targets.yaml` does not have its mode 0644
      `more.txt` is not in the manifest

    hint: bundle the suite again
    ");
    workspace.run(&["bundle", "out/eval.yaml", "-o", "copy"]).expect(3);
    assert!(!workspace.path("copy").exists());
    assert_snapshot!(workspace.run(&["bundle", "verify", "repo"]).expect(3).stderr, @r"
    error: `repo` is not a bundle: cannot read `manifest.json`: No such file or directory (os error 2)

    hint: `run-evals bundle SUITE -o DIR` creates one
    ");
    workspace.write("out/manifest.json", "{\"format\": 99}");
    assert_snapshot!(workspace.run(&["bundle", "verify", "out"]).expect(3).stderr, @r"
    error: `out/manifest.json` has format 99, but this version supports 1

    hint: use a newer `run-evals`
    ");
}

#[test]
fn a_bundle_runs_with_a_mock() {
    let workspace = repository(&[ECHO, SUITE]);
    let output = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out", "--verify-run"]).expect(0);
    assert!(output.stdout.contains("scores   1 of 1 equal"), "{}", output.stdout);
    workspace.write(
        "repo/suite.eval.yaml",
        "workspace: {isolation: per_test}\ntests:\n  - {id: one, criteria: c, input: hello}\n",
    );
    let told =
        workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out2", "--verify-run"]).expect(3).stderr;
    assert!(told.contains("cannot run without AgentV"), "{told}");
}

fn quoted(text: &str) -> String {
    if text.starts_with(|c: char| c.is_ascii_digit()) { format!("\"{text}\"") } else { text.to_owned() }
}

fn sha256(path: &std::path::Path) -> String {
    run_evals::testing::Digest::of(&std::fs::read(path).unwrap()).to_string()
}
