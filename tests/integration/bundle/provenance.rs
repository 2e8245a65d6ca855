//! Where a bundle comes from, and that it is still that bundle: versions, times, digests, names of targets, leftovers of runs.

use insta::assert_snapshot;
use serde_json::json;

use super::{ECHO, manifest, repository};
use crate::support::Workspace;

const SUITE: (&str, &str) = ("suite.eval.yaml", "tests:\n  - {id: one, criteria: c, input: hello}\n");

/// A `PATH` with this program as `agentv`.
fn with_agentv(workspace: &Workspace, script: &str) -> String {
    workspace.write_program("bin/agentv", script);
    format!("{}:/usr/bin:/bin", workspace.path("bin").display())
}

#[test]
fn the_version_of_agentv_is_that_of_the_program_or_of_the_lock_file() {
    let lock = r#"{"packages": {"node_modules/agentv": {"version": "4.41.0"}}}"#;
    let workspace = repository(&[
        ECHO,
        SUITE,
        ("package-lock.json", lock),
        ("package.json", r#"{"devDependencies": {"agentv": "^4.0.0"}}"#),
    ]);
    let bundle = |out: &str, path: &str| {
        let mut command = workspace.command(&["bundle", "repo/suite.eval.yaml", "-o", out]);
        let output = command.env("PATH", path).output().unwrap();
        assert!(output.status.success());
        (manifest(&workspace.path(out)), String::from_utf8(output.stdout).unwrap())
    };
    let (locked, shown) = bundle("locked", "/usr/bin:/bin");
    assert_eq!(
        (locked["agentv"].clone(), locked["agentv_required"].clone()),
        (json!("4.41.0"), json!("^4.0.0"))
    );
    assert!(shown.contains("agentv   4.41.0"), "{shown}");
    // A program in `PATH` counts by its package; it is not started, because a checkout can put its own there.
    let path =
        with_agentv(&workspace, "#!/bin/sh\ntouch \"$(dirname \"$0\")/started\"\necho 'agentv v4.42.4'\n");
    assert_eq!(bundle("started", &path).0["agentv"], "4.41.0");
    assert!(!workspace.path("bin/started").exists());
    workspace.write("package.json", r#"{"name": "agentv", "version": "4.42.4"}"#);
    assert_eq!(bundle("installed", &path).0["agentv"], "4.42.4");
    // What `npx agentv` runs in this repository.
    workspace.write("repo/node_modules/agentv/package.json", r#"{"name": "agentv", "version": "4.40.1"}"#);
    assert_eq!(bundle("local", &path).0["agentv"], "4.40.1");
}

#[test]
fn every_manifest_has_a_time() {
    let workspace = Workspace::new();
    for (name, text) in [ECHO, SUITE] {
        workspace.write(&format!("repo/{name}"), text);
    }
    let newest = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for (name, before) in [(ECHO.0, 0), (SUITE.0, 60)] {
        let file = std::fs::File::options().write(true).open(workspace.path("repo").join(name)).unwrap();
        file.set_modified(newest - std::time::Duration::from_secs(before)).unwrap();
    }
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out"]).expect(0);
    assert_eq!(manifest(&workspace.path("out"))["created"], "2023-11-14T22:13:20Z");
}

#[test]
fn a_dirty_tree_is_a_warning() {
    let workspace = repository(&[ECHO, SUITE, ("unused.txt", "x")]);
    workspace.write("repo/unused.txt", "y");
    let clean = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "clean"]).expect(0);
    assert_eq!(clean.stderr, "");
    workspace.write("repo/suite.eval.yaml", "tests:\n  - {id: two, criteria: c, input: hello}\n");
    let dirty = workspace.run(&["bundle", "repo/suite.eval.yaml", "-o", "out"]).expect(0);
    let commit = manifest(&workspace.path("out"))["source"]["commit"].as_str().unwrap()[..12].to_owned();
    assert_snapshot!(dirty.stderr.replace(&commit, "[COMMIT]"), @r"
    warning: 1 file differs from commit [COMMIT]:
      suite.eval.yaml

    hint: commit them, so that others can reproduce the bundle
    ");
    // Everything travels, so the check is fine.
    workspace.run(&["bundle", "repo/suite.eval.yaml", "--check"]).expect(0);
}

#[test]
fn a_bundle_is_compared_with_its_digest() {
    let workspace = repository(&[ECHO, SUITE]);
    let json = workspace.run(&[
        "bundle",
        "repo/suite.eval.yaml",
        "-q",
        "-o",
        "out",
        "--archive",
        "--format",
        "json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&json.expect(0).stdout).unwrap();
    let [archive, manifest] = ["sha256", "manifest_sha256"].map(|key| json[key].as_str().unwrap().to_owned());
    for (bundle, digest) in [("out.tar.gz", &archive), ("out.tar.gz", &manifest), ("out", &manifest)] {
        workspace.run(&["bundle", "verify", bundle, "--sha256", digest]).expect(0);
    }
    let told = workspace.run(&["bundle", "verify", "out", "--sha256", &archive]).expect(3).stderr;
    assert_snapshot!(told.replace(&archive, "[ARCHIVE]").replace(&manifest, "[MANIFEST]"), @r"
    error: `out` has the SHA-256 [MANIFEST], expected [ARCHIVE]

    hint: a directory has the SHA-256 of its manifest; the digest of an archive is checked against the archive
    ");
    workspace.run(&["bundle", "verify", "out.tar.gz", "--sha256", &"0".repeat(64)]).expect(3);
    workspace.run(&["bundle", "verify", "out", "--sha256", "abc"]).expect(2);
}

#[test]
fn an_archive_has_one_directory_named_after_the_suite() {
    for (name, top) in [("my-suite", "my-suite"), ("'../x y'", "x-y"), ("'..'", "bundle")] {
        let text = format!("name: {name}\n{}", SUITE.1);
        let workspace = repository(&[ECHO, ("suite.eval.yaml", &text)]);
        workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out", "--archive"]).expect(0);
        workspace.run(&["bundle", "verify", "out.tar.gz"]).expect(0);
        let listed = std::process::Command::new("tar")
            .args(["tzf", "out.tar.gz"])
            .current_dir(workspace.root())
            .output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        assert!(listed.starts_with(&format!("{top}/manifest.json\n")), "{listed}");
        assert!(listed.lines().all(|line| line.starts_with(&format!("{top}/"))), "{listed}");
    }
}

#[test]
fn running_a_bundle_in_place_does_not_invalidate_it() {
    let text = "tests:\n  - {id: one, criteria: c, input: x, assertions: [{type: code-grader, command: [python3, tools/check.py]}]}\n";
    let workspace =
        repository(&[ECHO, ("suite.eval.yaml", text), ("tools/check.py", ""), ("tools/package.json", "{}")]);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out"]).expect(0);
    workspace.write("out/.agentv/cache.json", "{}");
    workspace.write("out/scripts/tools/__pycache__/check.cpython-311.pyc", "x");
    workspace.write("out/scripts/node_modules/a/index.js", "x");
    let shown = workspace.run(&["bundle", "verify", "out"]).expect(0).stdout;
    let (_, leftovers) = shown.split_once('\n').unwrap();
    assert_snapshot!(leftovers, @r"

    not part of the bundle and not checked:
      .agentv/cache.json: left by runs; remove it if you have not run the bundle here
      scripts/node_modules: left by runs; remove it if you have not run the bundle here
      scripts/tools/__pycache__: left by runs; remove it if you have not run the bundle here
    ");
    // Only where programs leave them, and never as a link.
    workspace.write("out/__pycache__/x.pyc", "x");
    workspace.run(&["bundle", "verify", "out"]).expect(3);
    std::fs::remove_dir_all(workspace.path("out/__pycache__")).unwrap();
    std::os::unix::fs::symlink("/etc", workspace.path("out/scripts/tools/node_modules")).unwrap();
    workspace.run(&["bundle", "verify", "out"]).expect(3);
}

#[test]
fn results_name_the_target_that_answered() {
    let targets = "targets:\n  - {name: default, use_target: middle}\n  - {name: middle, use_target: model}\n  - {name: model, provider: mock}\n";
    let workspace = repository(&[("targets.yaml", targets), SUITE]);
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out"]).expect(0);
    assert_snapshot!(workspace.read("out/targets.yaml"), @r"
    $schema: agentv-targets-v2.2
    targets:
      - name: default
        use_target: model
      - name: model
        provider: mock
    ");
    let target = |suite: &str, results: &str| {
        workspace.run(&["eval", suite, "-q", "--no-grade", "--output", results]).expect(0);
        workspace.rows(&format!("{results}/responses.jsonl"))[0]["target"].clone()
    };
    assert_eq!(target("repo/suite.eval.yaml", "here"), target("out", "there"));
}

/// The target is run in a copy of the template, from which the script's absolute path leads nowhere on another machine.
#[test]
fn an_absolute_script_of_a_target_is_reached_from_the_workspace() {
    let workspace = repository(&[
        (
            "suite.eval.yaml",
            "workspace: {template: ./t}\ntests:\n  - {id: one, criteria: c, input: x}\n  - {id: two, criteria: c, input: x, workspace: {template: ./u}}\n",
        ),
        ("t/a.txt", ""),
        ("u/a.txt", ""),
        ("tools/agent.sh", "#!/bin/sh\n"),
    ]);
    let script = workspace.path("repo/tools/agent.sh").canonicalize().unwrap();
    workspace.write(
        "repo/targets.yaml",
        format!(
            "targets:\n  - {{name: default, provider: cli, command: 'sh {} {{OUTPUT_FILE}}'}}\n",
            script.display()
        ),
    );
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out", "--archive"]).expect(0);
    workspace.run(&["bundle", "verify", "out.tar.gz"]).expect(0);
    let targets = workspace.read("out/targets.yaml");
    assert!(targets.contains("sh ./.bundle-scripts/tools/agent.sh {OUTPUT_FILE}"), "{targets}");
    for dir in ["out/workspace/t", "out/workspace/u", "out/scripts"] {
        assert!(workspace.path(dir).join(".bundle-scripts/tools/agent.sh").is_file(), "{dir}");
    }
}

#[test]
fn a_bundle_is_proven_by_its_scores() {
    let check = "#!/bin/sh\nif [ -f \"$(dirname \"$0\")/../data/words.txt\" ]; then echo '{\"score\": 1}'; else echo '{\"score\": 0}'; fi\n";
    let suite = "tests:\n  - id: one\n    criteria: c\n    input: hello\n    assertions: [{type: code-grader, name: check, command: [sh, tools/check.sh]}]\n";
    let targets = ("targets.yaml", "targets:\n  - {name: default, provider: mock}\n");
    let workspace = repository(&[
        targets,
        ("suite.eval.yaml", suite),
        ("tools/check.sh", check),
        ("data/words.txt", "x"),
    ]);
    let run = |out: &str, code: i32| {
        let mut command =
            workspace.command(&["bundle", "repo/suite.eval.yaml", "-q", "-o", out, "--verify-run"]);
        let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        let stdout = String::from_utf8(output.stdout).unwrap();
        let root = workspace.root().canonicalize().unwrap();
        let text = stdout.split_once("verify-run with ").unwrap().1.replace(root.to_str().unwrap(), "[ROOT]");
        text.replace(workspace.root().to_str().unwrap(), "[ROOT]")
            .replace(env!("CARGO_PKG_VERSION"), "[VERSION]")
    };
    assert_snapshot!(run("out", 0), @r"
    run-evals [VERSION]
    in place [ROOT]/out.verify-run/in-place
    bundle   [ROOT]/out.verify-run/bundle
    scores   1 of 1 equal, mean 1.000 in place
    ");
    // What is printed is still there.
    for side in ["in-place", "bundle"] {
        assert_eq!(workspace.rows(&format!("out.verify-run/{side}/scores.jsonl")).len(), 1);
    }
    // A file that no script names.
    workspace.write("repo/tools/check.sh", check.replace("data/words.txt", "$(echo data)/words.txt"));
    assert_snapshot!(run("out2", 4), @r"
    run-evals [VERSION]
    in place [ROOT]/out2.verify-run/in-place
    bundle   [ROOT]/out2.verify-run/bundle
    scores   0 of 1 equal, mean 1.000 in place

    differences:
      one on default: in place 1 (passed), bundle 0 (failed)
      one on default, grader 1 check: in place 1 (pass), bundle 0 (fail)
    ");
    // A foreign directory is not replaced.
    workspace.write("out3.verify-run/mine.txt", "mine");
    workspace.run(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out3", "--verify-run"]).expect(2);
    assert_eq!(workspace.read("out3.verify-run/mine.txt"), "mine");
}

/// A suite whose targets file is added where the bundle is run.
#[test]
fn verify_run_replaces_targets_that_only_the_suite_names() {
    let text = "execution: {targets: [gpt, {name: claude, use_target: sonnet}]}\ntests:\n  - {id: one, criteria: c, input: hello, assertions: [{type: contains, value: hello}]}\n";
    let workspace = repository(&[("suite.eval.yaml", text)]);
    let mut command =
        workspace.command(&["bundle", "repo/suite.eval.yaml", "-q", "-o", "out", "--verify-run"]);
    let output = crate::support::Output::of(command.env("PATH", "/usr/bin:/bin")).expect(0);
    assert!(output.stdout.contains("2 of 2 equal, mean 1.000"), "{}", output.stdout);
}
