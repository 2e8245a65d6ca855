//! Suites that cannot be bundled: the error has file, line and hint.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

use insta::assert_snapshot;

use super::{ECHO, commit, repository};
use crate::support::{Output, Workspace};

/// Bundles `suite.eval.yaml` of the repository; a failure must leave nothing behind.
fn refused(workspace: &Workspace) -> String {
    let output = bundle(workspace, &[]).expect(3);
    let left: Vec<_> = std::fs::read_dir(workspace.path("repo/out"))
        .map_or_else(|_| Vec::new(), |entries| entries.map(|entry| entry.unwrap().file_name()).collect());
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(output.stdout, "");
    output.stderr.replace(workspace.root().to_str().unwrap(), "[ROOT]")
}

fn bundle(workspace: &Workspace, more: &[&str]) -> Output {
    let args = [&["bundle", "suite.eval.yaml", "-o", "out/bundle"][..], more].concat();
    Output::of(workspace.command(&args).current_dir(workspace.path("repo")))
}

const TEST: &str = "tests:\n  - id: one\n    criteria: c\n    input: hello\n";

fn suite(more: &str) -> String {
    format!("{TEST}{more}")
}

#[test]
fn missing_files() {
    let text = suite(
        "    input_files: [gone.md]\n    assertions:\n      - {type: code-grader, name: x, command: ./gone.sh}\n      - {type: llm-grader, name: y, prompt: file://gone/prompt.md}\n      - {type: my-own}\n      - include: nowhere\nworkspace: {template: ./gone}\n",
    );
    let workspace = repository(&[ECHO, ("suite.eval.yaml", &text)]);
    assert_snapshot!(refused(&workspace), @r"
    error: no such file: `gone`
       --> suite.eval.yaml:11:23
        |
     11 | workspace: {template: ./gone}
        |                       ^^^^^^

    error: attachment not found: `gone.md`
      --> suite.eval.yaml:5:19
       |
     5 |     input_files: [gone.md]
       |                   ^^^^^^^

    hint: looked in `.`

    error: no template `nowhere`
       --> suite.eval.yaml:10:18
        |
     10 |       - include: nowhere
        |                  ^^^^^^^

    hint: a bare name means `.agentv/templates/NAME.yaml`, a path with `./` or `/` a file; looked in `.`

    error: no such script: `./gone.sh`
      --> suite.eval.yaml:7:47
       |
     7 |       - {type: code-grader, name: x, command: ./gone.sh}
       |                                               ^^^^^^^^^

    hint: the command runs in `.`

    error: prompt not found: `gone/prompt.md`
      --> suite.eval.yaml:8:45
       |
     8 |       - {type: llm-grader, name: y, prompt: file://gone/prompt.md}
       |                                             ^^^^^^^^^^^^^^^^^^^^^

    hint: looked in `.`

    error: unknown assertion type: `my-own`
      --> suite.eval.yaml:9:16
       |
     9 |       - {type: my-own}
       |                ^^^^^^

    hint: a type that is not built in is a file `.agentv/assertions/TYPE.ts`
    ");
}

#[test]
fn files_outside_the_repository() {
    let text = suite("    input_files: [../outside.md]\nworkspace: {template: ../elsewhere}\n");
    let workspace = repository(&[ECHO, ("suite.eval.yaml", &text)]);
    workspace.write("outside.md", "x");
    workspace.write("elsewhere/x", "x");
    assert_snapshot!(refused(&workspace), @r"
    error: outside the repository: `[ROOT]/elsewhere`
      --> suite.eval.yaml:6:23
       |
     6 | workspace: {template: ../elsewhere}
       |                       ^^^^^^^^^^^^

    hint: move it into the repository; `--root DIR` sets another directory as the repository

    error: outside the repository: `[ROOT]/outside.md`
      --> suite.eval.yaml:5:19
       |
     5 |     input_files: [../outside.md]
       |                   ^^^^^^^^^^^^^

    hint: move it into the repository; `--root DIR` sets another directory as the repository
    ");
}

#[test]
fn an_include_cycle() {
    let text = suite("    assertions: [{include: a}]\n");
    let workspace = repository(&[
        ECHO,
        ("suite.eval.yaml", &text),
        (".agentv/templates/a.yaml", "assertions:\n  - include: b\n"),
        (".agentv/templates/b.yaml", "assertions:\n  - include: a\n"),
    ]);
    assert_snapshot!(refused(&workspace), @r"
    error: `include` is circular: .agentv/templates/a.yaml → .agentv/templates/b.yaml → .agentv/templates/a.yaml
      --> .agentv/templates/b.yaml:2:14
       |
     2 |   - include: a
       |              ^

    hint: one of these files must not include the next
    ");
}

#[test]
fn eval_reports_the_same_mistakes() {
    let list = |assertions: &str| suite(&format!("    assertions: [{assertions}]\n"));
    for text in [
        "- id: a\n".to_owned(),
        "name: empty\n".to_owned(),
        "tests: 7\n".to_owned(),
        "tests: gone.yaml\n".to_owned(),
        "tests: cases/*.yaml\n".to_owned(),
        "tests: [file://none/*.yaml, file://targets.txt, file://targets.yaml]\n".to_owned(),
        "tests: torn.jsonl\n".to_owned(),
        "prompts: [x]\ntests: []\n".to_owned(),
        suite("    input_files: [gone.md]\n"),
        list("{type: llm-grader, name: y, prompt: file://gone.md}"),
        list("{include: nowhere}"),
        list("{include: circle}"),
        list("{include: ./targets.yaml}"),
    ] {
        let workspace = repository(&[
            ECHO,
            ("suite.eval.yaml", &text),
            ("targets.txt", ""),
            ("torn.jsonl", "{\"id\": \"a\", \"input\": \"hi\", \"criteria\": \"x\"}\n{\"id\": \n"),
            (".agentv/templates/circle.yaml", "assertions: [{include: circle}]\n"),
        ]);
        let mut eval = workspace.command(&["eval", "suite.eval.yaml"]);
        let eval = eval.current_dir(workspace.path("repo")).output().unwrap();
        assert_eq!(eval.status.code(), Some(3), "{text}");
        assert_eq!(String::from_utf8(eval.stderr).unwrap(), refused(&workspace), "{text}");
    }
}

#[test]
fn links_out_of_the_repository() {
    let text = suite("workspace: {template: ./template}\n");
    let workspace = repository(&[ECHO, ("suite.eval.yaml", &text), ("template/x", "x")]);
    workspace.write("secret.txt", "x");
    symlink("../../secret.txt", workspace.path("repo/template/relative")).unwrap();
    symlink("/etc/passwd", workspace.path("repo/template/absolute")).unwrap();
    assert_snapshot!(refused(&workspace), @r"
    error: the link `template/absolute` points outside the repository: `/etc/passwd`
      --> suite.eval.yaml:5:23
       |
     5 | workspace: {template: ./template}
       |                       ^^^^^^^^^^

    hint: replace it with the file

    error: the link `template/relative` points outside the repository: `../../secret.txt`
      --> suite.eval.yaml:5:23
       |
     5 | workspace: {template: ./template}
       |                       ^^^^^^^^^^

    hint: replace it with the file
    ");
}

#[test]
fn names_that_differ_only_by_case() {
    let text = suite("workspace: {template: ./template}\n");
    let workspace =
        repository(&[ECHO, ("suite.eval.yaml", &text), ("template/Read.me", "x"), ("template/read.me", "y")]);
    assert_snapshot!(refused(&workspace), @r"
    error: `workspace/template/Read.me` and `workspace/template/read.me` differ only by case, which some disks do not distinguish
      --> suite.eval.yaml:1:1
       |
     1 | tests:
       | ^

    hint: rename one of them
    ");
}

#[test]
fn pipes_and_sockets() {
    let text = suite("workspace: {template: ./template}\n");
    let workspace = repository(&[ECHO, ("suite.eval.yaml", &text), ("template/x", "x")]);
    assert!(Command::new("mkfifo").arg(workspace.path("repo/template/pipe")).status().unwrap().success());
    assert_snapshot!(refused(&workspace), @r"
    error: `template/pipe` is neither a file nor a directory
      --> suite.eval.yaml:5:23
       |
     5 | workspace: {template: ./template}
       |                       ^^^^^^^^^^
    ");
}

#[test]
fn files_that_cannot_be_read() {
    let text = suite("workspace: {template: ./template}\n");
    let workspace = repository(&[ECHO, ("suite.eval.yaml", &text), ("template/locked.txt", "x")]);
    let locked = workspace.path("repo/template/locked.txt");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::set_permissions(workspace.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let is_root = std::fs::File::open(&locked).is_ok();
    let binary =
        workspace.write_program("run-evals", std::fs::read(env!("CARGO_BIN_EXE_run-evals")).unwrap());
    // Root can read everything, so another user tries.
    let mut command = if is_root { Command::new("setpriv") } else { Command::new(&binary) };
    if is_root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
    }
    workspace
        .like(&mut command)
        .args(["bundle", "suite.eval.yaml", "--check"])
        .current_dir(workspace.path("repo"));
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert_snapshot!(stderr, @r"
    error: cannot read `template/locked.txt`: Permission denied (os error 13)
      --> suite.eval.yaml:5:23
       |
     5 | workspace: {template: ./template}
       |                       ^^^^^^^^^^
    ");
}

#[test]
fn suites_of_version_5() {
    for key in [
        "prompts: [x]",
        "environment: {type: host, workdir: .}",
        "extensions: [file://x.mjs:beforeAll]",
        "providers: [x]",
    ] {
        let workspace = repository(&[ECHO, ("suite.eval.yaml", &format!("{key}\n{TEST}"))]);
        let told = refused(&workspace);
        assert!(told.contains("a suite of AgentV 5"), "{told}");
    }
    let workspace = repository(&[ECHO, ("suite.eval.yaml", "prompts: [x]\ntests: []\n")]);
    assert_snapshot!(refused(&workspace), @r"
    error: this is a promptfoo config or a suite of AgentV 5 (`prompts`), and run-evals supports suites of AgentV 4
      --> suite.eval.yaml:1:1
       |
     1 | prompts: [x]
       | ^^^^^^^

    hint: write `input` and `assertions` in each test, and set the model in targets.yaml: `run-evals init` writes an example
    ");
    let workspace = repository(&[
        ECHO,
        ("suite.eval.yaml", "tests:\n  - {id: a, criteria: c, input: 'say {{ env.WORD }}'}\n"),
    ]);
    assert_snapshot!(refused(&workspace), @r"
    error: `{{ env.NAME }}` is AgentV 5's variable syntax: such suites cannot be bundled yet
      --> suite.eval.yaml:2:33
       |
     2 |   - {id: a, criteria: c, input: 'say {{ env.WORD }}'}
       |                                 ^^^^^^^^^^^^^^^^^^^^

    hint: AgentV 4 writes `${{ NAME }}`
    ");
    let providers = "- id: openai:gpt\n  label: x\n";
    let workspace = repository(&[("providers.yaml", providers), ("suite.eval.yaml", TEST)]);
    let told = bundle(&workspace, &["--targets", "providers.yaml"]).expect(3).stderr;
    assert_snapshot!(told, @r"
    error: `providers.yaml` of AgentV 5 cannot be bundled yet
      --> providers.yaml:1:1
       |
     1 | - id: openai:gpt
       | ^

    hint: AgentV 4 reads `targets.yaml`
    ");
}

#[test]
fn programs_are_not_suites() {
    let workspace = repository(&[("suite.eval.ts", "export default {}"), ("evals.json", "{}")]);
    for suite in ["suite.eval.ts", "evals.json"] {
        let output = workspace
            .command(&["bundle", suite, "-o", "out"])
            .current_dir(workspace.path("repo"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3));
    }
    let told = workspace.run(&["bundle", "repo/suite.eval.ts", "-o", "out"]).expect(3).stderr;
    assert_snapshot!(told, @r"
    error: cannot load the suite `repo/suite.eval.ts`: a TypeScript suite is a program, which only AgentV runs

    hint: write the suite as `.yaml`, `.yml` or `.jsonl`
    ");
}

#[test]
fn unresolvable_targets() {
    let targets = "targets:\n  - {name: default, use_target: gone}\n  - {name: a, use_target: b}\n  - {name: b, use_target: a}\n  - {name: c, provider: openai, api_key: sk-literal-0123456789}\n";
    let text = suite("execution: {targets: [default, a, c]}\n");
    let workspace = repository(&[("targets.yaml", targets), ("suite.eval.yaml", &text)]);
    assert_snapshot!(refused(&workspace), @r"
    error: `use_target` does not resolve: default → gone
      --> targets.yaml:2:33
       |
     2 |   - {name: default, use_target: gone}
       |                                 ^^^^

    hint: the targets file has `default`, `a`, `b`, `c`

    error: `use_target` is circular: a → b → a
      --> targets.yaml:4:27
       |
     4 |   - {name: b, use_target: a}
       |                           ^

    hint: the targets file has `default`, `a`, `b`, `c`

    error: `api_key` is a literal value that would be in the bundle
      --> targets.yaml:5:33
       |
     5 |   - {name: c, provider: openai, api_key: *********************}
       |                                 ^^^^^^^

    hint: write `api_key: ${{ NAME }}` and set the variable
    ");
}

#[test]
fn a_variable_that_chooses_a_file_must_be_set() {
    let workspace = repository(&[ECHO, ("suite.eval.yaml", "tests: ${{ CASES }}/x.yaml\n")]);
    assert_snapshot!(refused(&workspace), @r"
    error: `tests` cannot be bundled: `CASES` chooses it, and is not set
      --> suite.eval.yaml:1:8
       |
     1 | tests: ${{ CASES }}/x.yaml
       |        ^^^^^^^^^^^^^^^^^^^

    hint: set `CASES` for this command, or write the path itself
    ");
}

#[test]
fn changed_files_are_listed() {
    let text = suite("    input_files: [notes.md, more.md]\n");
    let workspace = repository(&[
        ECHO,
        ("suite.eval.yaml", &text),
        ("notes.md", "x"),
        ("other.md", "x"),
        ("more.md", "y"),
    ]);
    for file in ["notes.md", "other.md"] {
        workspace.write(&format!("repo/{file}"), "changed");
    }
    bundle(&workspace, &[]).expect(0);
    let source = super::manifest(&workspace.path("repo/out/bundle"))["source"].clone();
    assert_eq!(source["dirty"], true);
    assert_eq!(source["changed"], serde_json::json!(["notes.md"]));
    commit(&workspace, "repo");
    bundle(&workspace, &["--force"]).expect(0);
    let source = super::manifest(&workspace.path("repo/out/bundle"))["source"].clone();
    assert_eq!((source["dirty"].clone(), source["changed"].clone()), (false.into(), serde_json::json!([])));
}

#[test]
fn check_lists_what_would_be_left_out() {
    let text = suite(
        "    assertions:\n      - {type: llm-grader, name: j, prompt: prompts/judge.md, target: grader}\nworkspace: ./template/\n",
    );
    let targets = "targets:\n  - name: default\n    use_target: ${{ UNSET_TARGET }}\n  - name: cli\n    provider: cli\n    command: /opt/agent/run {PROMPT_FILE} {OUTPUT_FILE}\n";
    let workspace = repository(&[
        ("targets.yaml", targets),
        ("suite.eval.yaml", &text),
        ("prompts/judge.md", "{{ output }}"),
        ("template/x", "x"),
        ("template/.env", "A=b"),
        ("template/package.json", "{}"),
        ("template/yarn.lock", ""),
        ("template/node_modules/x/index.js", ""),
    ]);
    let output = workspace
        .command(&["bundle", "suite.eval.yaml", "--check"])
        .current_dir(workspace.path("repo"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r"
    warning: AgentV expects a file here; the directory is used as a template
      --> suite.eval.yaml:7:12
       |
     7 | workspace: ./template/
       |            ^^^^^^^^^^^

    hint: write `workspace: { template: ./template/ }`; the bundle uses this form

    warning: `prompts/judge.md` is sent as text: it does not begin with `file://`
      --> suite.eval.yaml:6:45
       |
     6 |       - {type: llm-grader, name: j, prompt: prompts/judge.md, target: grader}
       |                                             ^^^^^^^^^^^^^^^^

    hint: write `file://prompts/judge.md`

    warning: no target `grader`: tests that need it fail, here and in the bundle
      --> suite.eval.yaml:6:71
       |
     6 |       - {type: llm-grader, name: j, prompt: prompts/judge.md, target: grader}
       |                                                                       ^^^^^^

    hint: the targets file has `default`, `cli`

    warning: `UNSET_TARGET` is not set: the bundle includes every target of the file
      --> targets.yaml:2:5
       |
     2 |   - name: default
       |     ^

    hint: set it for this command to include only the target that it names

    warning: `/opt/agent/run` is not in the repository: it must be on every machine
      --> targets.yaml:6:14
       |
     6 |     command: /opt/agent/run {PROMPT_FILE} {OUTPUT_FILE}
       |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: use a program from `PATH`, or put it into the repository

    error: 5 things cannot be bundled as is

    hint: the warnings above say how to fix it
    ");
    assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    left behind:
      /opt/agent/run: used by a command, but not in the repository: it must be on every machine
      template/.env: files with secrets never travel: set the variables there
      template/node_modules: packages: `yarn.lock` beside `package.json` restores them
      the choice of target `default`: `UNSET_TARGET` is not set; set it where the bundle runs
      the target `grader`: the targets file does not contain it
    ");
}
