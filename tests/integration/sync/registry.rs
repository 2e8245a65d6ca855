//! The registry: its content, its location, and its errors.

use super::{Bench, git};
use crate::support::Workspace;

fn problems(text: &str) -> String {
    let workspace = Workspace::new();
    workspace.write("r.yaml", text);
    let output = workspace.run(&["sync", "--all", "--registry", "r.yaml"]).expect(3);
    output.stderr.replace(workspace.root().to_str().unwrap(), "[dir]").trim_end().to_owned()
}

#[test]
fn all_mistakes_are_shown_at_once() {
    insta::assert_snapshot!(problems("benchmarks:\n  - path: a\n  - id: ../up\n    path: b\n  - id: c\n    path: c\n    source: { url: https://h/r, ref: a..b }\n  - id: d\n    path: d\n    source: { url: 'https://h/${{ NOT_SET }}', ref: '${{ REF:--x }}' }\n  - id: e\n    path: e\n    source: { url: 'https://h/${{ MY_TOKEN }}', ref: 7 }\n"), @r"
    error: `id` is missing
      --> r.yaml:2:5
       |
     2 |   - path: a
       |     ^

    error: `../up` cannot be an id
      --> r.yaml:3:9
       |
     3 |   - id: ../up
       |         ^^^^^

    hint: letters, digits, `.`, `_` and `-`, at most 100, a letter or digit first

    error: `ref`: `a..b` is not a valid ref name
      --> r.yaml:7:38
       |
     7 |     source: { url: https://h/r, ref: a..b }
       |                                      ^^^^

    hint: a branch or a tag by its name (`main`, `v1.2`), or a commit by its 40 digits

    error: `url`: the variable `NOT_SET` is not set
       --> r.yaml:10:20
        |
     10 |     source: { url: 'https://h/${{ NOT_SET }}', ref: '${{ REF:--x }}' }
        |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: set it, or give a default: `${{ NOT_SET:-… }}`

    error: `ref`: the value is empty, begins with `-` or has control characters
       --> r.yaml:10:53
        |
     10 |     source: { url: 'https://h/${{ NOT_SET }}', ref: '${{ REF:--x }}' }
        |                                                     ^^^^^^^^^^^^^^^^^

    error: `url`: `MY_TOKEN` holds a secret, which would appear in logs and in the clone
       --> r.yaml:13:20
        |
     13 |     source: { url: 'https://h/${{ MY_TOKEN }}', ref: 7 }
        |                    ^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: git's credential helpers and `GITHUB_TOKEN` authenticate without storing it

    error: `ref`: expected a string, found a number
       --> r.yaml:13:54
        |
     13 |     source: { url: 'https://h/${{ MY_TOKEN }}', ref: 7 }
        |                                                      ^

    hint: put it in quotes
    ");
}

#[test]
fn duplicates_are_rejected() {
    let told = problems(
        "benchmarks:\n  - {id: a, path: x/a}\n  - {id: a, path: y/a}\n  - {id: b, path: ./x/../x/a}\n  - {id: c, path: x}\n  - {id: d, path: '.'}\n",
    );
    let first: Vec<&str> = told.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(
        first,
        [
            "error: two benchmarks have the id `a`, the first on line 2",
            "error: `a` and `b` have the same path, `[dir]/x/a`",
            "error: the paths of `a` and `c` overlap: one contains the other",
            "error: the paths of `b` and `c` overlap: one contains the other",
            "error: `path`: `[dir]` cannot hold a benchmark",
        ]
    );
}

#[test]
fn variables_and_defaults_are_filled_in() {
    let bench = Bench::new();
    git(&bench.upstream(), &["branch", "release"]);
    bench.register("url: '${{ PLACE }}/upstream', ref: '${{ REF:-main }}'");
    let told = bench.message(&bench.sync(&[]).expect(3));
    assert!(told.starts_with("error: `url`: the variable `PLACE` is not set"), "{told}");
    let run = |reference: &str| {
        let mut command = bench.workspace.command(&["sync", "one", "--allow-local"]);
        command.env("PLACE", bench.workspace.root()).env("REF", reference).output().unwrap()
    };
    for (reference, branch) in [("", "main"), ("release", "release")] {
        assert!(run(reference).status.success());
        assert_eq!(bench.seen().branch, branch);
    }
    for bad in ["--upload-pack=id", "a\nb", "a b"] {
        let output = run(bad);
        assert_eq!(output.status.code(), Some(3), "{bad}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn variables_in_a_path_are_filled_in_and_never_name_a_directory() {
    let bench = Bench::new();
    let upstream = bench.upstream().display().to_string();
    let registry = |path: &str| {
        let text = format!(
            "benchmarks:\n  - {{ id: one, path: '{path}', source: {{ url: {upstream}, ref: main }} }}\n"
        );
        bench.workspace.write(".agentv/benchmarks.yaml", text);
    };
    for (path, message) in [
        ("${{ WHERE }}/one", "`path`: the variable `WHERE` is not set"),
        ("${{ WHERE", "`path`: a reference that names no variable"),
        ("x/${{ }}", "`path`: a reference that names no variable"),
        ("${{ GH_TOKEN }}", "`path`: `GH_TOKEN` holds a secret"),
    ] {
        registry(path);
        let told = bench.message(&bench.sync(&[]).expect(3));
        assert!(told.starts_with(&format!("error: {message}")), "{path}: {told}");
    }
    bench.workspace.write(
        ".agentv/config.yaml",
        format!("projects:\n  - {{ id: two, name: Two, path: '${{{{ WHERE }}}}/two', repo_url: {upstream}, ref: main }}\n"),
    );
    registry("${{ WHERE:-../clones }}/one");
    bench.sync(&[]).expect(3);
    assert_eq!(std::fs::read_dir(bench.workspace.path(".agentv")).unwrap().count(), 2, "nothing was made");
    let where_to = bench.workspace.path("elsewhere");
    let mut command = bench.workspace.command(&["sync", "one", "two", "--allow-local"]);
    assert!(command.env("WHERE", &where_to).output().unwrap().status.success());
    for id in ["one", "two"] {
        assert_eq!(super::seen(&where_to.join(id)), bench.expected("main", &[]));
    }
}

/// A shell's spelling is not replaced, so it would become the name of a directory.
#[test]
fn shell_variables_in_a_path_are_refused() {
    let workspace = Workspace::new().env("BENCH", "/srv/bench");
    for (path, shown, name) in [
        ("${BENCH}/one", "${BENCH}", "BENCH"),
        ("$BENCH/one", "$BENCH", "BENCH"),
        ("clones/${UNSET:-one}", "${UNSET:-one}", "UNSET:-one"),
    ] {
        let entry = format!("{{ id: one, path: '{path}', source: {{ url: 'https://h.invalid/r' }} }}");
        workspace.write("r.yaml", format!("benchmarks:\n  - {entry}\n"));
        workspace.write(
            "p.yaml",
            format!("projects:\n  - {{ id: one, path: '{path}', repo_url: 'https://h.invalid/r' }}\n"),
        );
        for file in ["r.yaml", "p.yaml"] {
            let before = workspace.tree();
            let told = workspace.run(&["sync", "one", "--registry", file]).expect(3).stderr;
            assert!(told.contains(&format!("`path`: `{shown}` is not replaced by its value")), "{told}");
            assert!(told.contains(&format!("hint: write `${{{{ {name} }}}}`")), "{told}");
            assert_eq!(workspace.tree(), before, "a directory was created");
        }
    }
    let entry = "{ id: one, path: clones, source: { url: 'https://h.invalid/$BENCH/r' } }";
    workspace.write("r.yaml", format!("benchmarks:\n  - {entry}\n"));
    let told = workspace.run(&["sync", "one", "--registry", "r.yaml"]).expect(3).stderr;
    assert!(told.contains("`url`: `$BENCH` is not replaced by its value"), "{told}");
}

#[test]
fn the_registry_is_in_agentvs_home_and_includes_its_projects() {
    let bench = Bench::new();
    let upstream = bench.upstream().display().to_string();
    let home = bench.workspace.path("home");
    bench.workspace.write(
        "home/config.yaml",
        format!("dashboard: {{ x: 1 }}\nprojects:\n  - {{id: four, name: Four, path: four, repo_url: {upstream}, ref: main}}\n  - {{id: five, path: five, repo: {upstream}, branch: main}}\n  - {{id: plain, path: plain}}\n  - {{name: nameless}}\n"),
    );
    let run = |args: &[&str]| {
        let output = bench.workspace.command(args).env("AGENTV_HOME", &home).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let before = bench.workspace.read("home/config.yaml");
    let (table, told) = run(&["sync", "--all", "--allow-local"]);
    assert!(told.contains("a project without `id` or `path`, which AgentV leaves out too"), "{told}");
    assert_eq!(
        table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>())
            .collect::<Vec<_>>(),
        [["four", "cloned"], ["five", "cloned"]]
    );
    // A relative path begins where the command was started, as AgentV's does.
    assert!(
        told.contains("AgentV resolves a relative path from the directory that it is started in"),
        "{told}"
    );
    for id in ["four", "five"] {
        assert_eq!(super::seen(&bench.workspace.path(id)), bench.expected("main", &[]));
    }
    // Our own file takes precedence; a project in both counts once.
    bench.workspace.write(
        "home/benchmarks.yaml",
        format!("benchmarks:\n  - {{id: four, path: ../four, source: {{url: {upstream}, ref: main}}}}\n"),
    );
    let (json, _) = run(&["sync", "--status", "--offline", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let listed: Vec<(&str, &str)> = json["benchmarks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (one["id"].as_str().unwrap(), one["registry"].as_str().unwrap().rsplit('/').next().unwrap())
        })
        .collect();
    assert_eq!(listed, [("four", "benchmarks.yaml"), ("five", "config.yaml"), ("plain", "config.yaml")]);
    assert_eq!(bench.workspace.read("home/config.yaml"), before);
}

#[test]
fn a_missing_registry_and_a_typo_in_a_key_are_reported() {
    let workspace = Workspace::new();
    let output = workspace.run(&["sync", "--all"]).expect(3);
    insta::assert_snapshot!(output.stderr.replace(workspace.root().to_str().unwrap(), "[dir]").trim_end(), @r"
    error: no registry at `[dir]/.agentv/benchmarks.yaml`

    hint: write one: `benchmarks: [{ id: refunds, path: ~/benchmarks/refunds, source: { url: https://github.com/o/r, ref: main } }]`, or name another with `--registry FILE`
    ");
    workspace.write("r.yaml", "benchmarks:\n  - { id: a, path: a, sorce: { url: https://h/r } }\n");
    let output = workspace.run(&["sync", "--status", "--registry", "r.yaml"]).expect(0);
    assert!(output.stderr.starts_with("warning: unknown key `sorce`\n"), "{}", output.stderr);
    assert!(output.stderr.contains("hint: did you mean `source`?"), "{}", output.stderr);
}
