//! How AgentV will use a `github-actions` target, checked without AgentV.

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;

use crate::support::Workspace;

/// The report on a target with these additional lines; `@` is the directory.
fn check(lines: &str) -> String {
    let workspace = Workspace::new();
    let root = workspace.root().to_str().unwrap().to_owned();
    for (name, mode) in [("run-evals", 0o755), ("notes", 0o644)] {
        workspace.write(name, "");
        std::fs::set_permissions(workspace.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let lines: String =
        lines.lines().map(|line| format!("    {}\n", line.trim().replace('@', &root))).collect();
    let targets = format!(
        "targets:\n  - name: cloud\n    provider: github-actions\n    repo: o/n\n    workflow: w.yml\n{lines}  \
         - {{ name: default, use_target: cloud }}\n  - {{ name: echo, provider: mock }}\n"
    );
    workspace.write("targets.yaml", targets);
    let output = workspace.run(&["doctor", "--offline", "--target", "cloud"]);
    let told = output.stdout.replace(&format!("{root}/"), "@/");
    // The drawn span depends on the length of the directory's name; another test covers it.
    let is_drawn = |line: &str| {
        let line = line.trim_start();
        line.starts_with("--> ")
            || line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|')
    };
    let told: String = told.lines().filter(|line| !is_drawn(line)).map(|line| format!("{line}\n")).collect();
    format!("exit {}\n{told}", output.code.unwrap())
}

/// The arguments of every correct call of the adapter.
const FILES: &str = "--prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}";

#[test]
fn commands_that_agentv_can_run() {
    for command in [
        format!("@/run-evals adapter --target cloud {FILES} --attempt {{ATTEMPT}} --files {{FILES}}"),
        format!("\"'@/run-evals' adapter --target=default {FILES} --workers 50\""),
        format!("GH_TOKEN=x MODE= @/run-evals adapter --target cloud {FILES}"),
    ] {
        let told = check(&format!("command: {command}"));
        assert!(told.starts_with("exit 0\n"), "{told}");
        assert!(told.contains("\n  ok         `agentv eval` can run its `command`\n"), "{told}");
        assert!(!told.contains("warning"), "{told}");
    }
    for lines in [
        format!("command: @/run-evals adapter --target cloud {FILES} --token-file ${{HOME}}/x 2>/dev/null"),
        "command: @/run-evals dispatch --agentv-batch s.yaml --target cloud --output-file {OUTPUT_FILE}\nprovider_batching: true".to_owned(),
    ] {
        let told = check(&lines);
        assert!(told.starts_with("exit 0\n") && !told.contains("warning"), "{told}");
    }
}

#[test]
fn unknown_options_of_the_adapter() {
    assert_snapshot!(check(&format!("command: @/run-evals adapter --target cloud {FILES} --attemt {{ATTEMPT}}")), @r"
    exit 3
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      `run-evals` does not understand the `command`: unexpected argument '--attemt' found
                 hint: `run-evals adapter --help` and `run-evals dispatch --help` show the options

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
    assert_snapshot!(check(&format!("command: @/run-evals adapter --target cloud {FILES} --window 2")), @r"
    exit 3
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      `run-evals` does not understand the `command`: invalid value '2' for '--window <DURATION>': expected a unit after the number: `2s`, `2m` or `2h`
                 hint: `run-evals adapter --help` and `run-evals dispatch --help` show the options

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
}

#[test]
fn a_missing_command() {
    assert_snapshot!(check(""), @r"
    exit 0
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      note       `agentv eval` cannot use this target: it has no `command`
                 hint: for `agentv eval` add `command: /usr/local/bin/run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID} --attempt {ATTEMPT} --files {FILES}`, with the path of your run-evals

    1 target of `targets.yaml`: 1 fine
    ");
}

#[test]
fn unknown_placeholders() {
    assert_snapshot!(check("command: @/run-evals adapter --target cloud {PROMPT_FIL} {EVAL_FILE} {lower} {}"), @r"
    exit 3
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      AgentV has no placeholder `{PROMPT_FIL}`
                 hint: did you mean `{PROMPT_FILE}`? it replaces `{PROMPT}`, `{PROMPT_FILE}`, `{EVAL_ID}`, `{ATTEMPT}`, `{FILES}`, `{OUTPUT_FILE}`
      error      AgentV has no placeholder `{EVAL_FILE}`
                 hint: did you mean `{EVAL_ID}`? it replaces `{PROMPT}`, `{PROMPT_FILE}`, `{EVAL_ID}`, `{ATTEMPT}`, `{FILES}`, `{OUTPUT_FILE}`
      error      `command` has no `{OUTPUT_FILE}`: AgentV would get no response
                 hint: AgentV reads the response only from that file: `--output-file {OUTPUT_FILE}`
      error      `adapter` needs `{PROMPT_FILE}`
                 hint: add `--prompt-file {PROMPT_FILE}`
      error      `adapter` needs `{EVAL_ID}`
                 hint: add `--id {EVAL_ID}`

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
}

#[test]
fn a_missing_or_non_executable_program() {
    assert_snapshot!(check("command: @/gone adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}"), @r"
    exit 3
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      program `@/gone` not found
                 hint: `command -v run-evals` prints the path of yours

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
    assert_snapshot!(check("command: @/notes adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}"), @r"
    exit 3
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      `@/notes` cannot be executed
                 hint: `chmod +x @/notes`, or name another program

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
    assert_snapshot!(check("command: run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}"), @r"
    exit 0
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      warning    `command` does not begin with an absolute path
                 hint: AgentV runs it in the suite's directory with a shell's `PATH`: write `/usr/local/bin/run-evals adapter …`, with the path of your run-evals

    1 target of `targets.yaml`: 1 fine
    ");
}

#[test]
fn a_command_for_another_target() {
    assert_snapshot!(check("command: @/run-evals adapter --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}"), @r"
    exit 3
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      `command` does not say which target it is for
                 hint: add `--target cloud`

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
    assert_snapshot!(check("command: @/run-evals adapter --target=echo --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}"), @r"
    exit 0
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      warning    `command` names another target, `echo`
                 hint: write `--target cloud`

    1 target of `targets.yaml`: 1 fine
    ");
    assert_snapshot!(check("command: @/run-evals adapter --target cluod --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}"), @r"
    exit 3
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      `command` names a target that does not exist: `cluod`
                 hint: write `--target cloud`

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
}

#[test]
fn a_custom_command() {
    assert_snapshot!(check("command: @/run-evals --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}"), @r"
    exit 0
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      warning    `command` calls neither `run-evals adapter` nor `run-evals dispatch --agentv-batch`
                 hint: that is fine for a script of your own that does

    1 target of `targets.yaml`: 1 fine
    ");
}

#[test]
fn calls_that_do_not_match_the_command() {
    assert_snapshot!(check("command: @/run-evals adapter --target cloud --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}\nprovider_batching: true"), @r"
    exit 0
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      warning    `provider_batching: true` beside `adapter`: AgentV would call it once, with an empty prompt
                 hint: leave `provider_batching` out: the adapter joins the calls itself

    1 target of `targets.yaml`: 1 fine
    ");
    assert_snapshot!(check("command: @/run-evals dispatch --agentv-batch s.yaml --target cloud --output-file {OUTPUT_FILE}"), @r"
    exit 0
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      warning    `--agentv-batch` without `provider_batching: true`: AgentV would call it once per test case
                 hint: add `provider_batching: true`

    1 target of `targets.yaml`: 1 fine
    ");
}

#[test]
fn a_command_that_is_not_text_or_comes_from_a_variable() {
    assert_snapshot!(check("command: [@/run-evals, adapter]"), @r"
    exit 3
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      `command`: expected a string, found a list

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
    assert_snapshot!(check("command: ${{ ADAPTER }}"), @r"
    exit 0
    cloud (github-actions)
      variables  `ADAPTER` not set (not needed by run-evals)
      note       GitHub was not checked (`--offline`)
      warning    `agentv eval` needs the environment variable `ADAPTER`, which is not set
                 hint: `export ADAPTER=…`

    1 target of `targets.yaml`: 1 fine
    ");
    assert_snapshot!(check("command: ${{ HOME }}"), @r"
    exit 0
    cloud (github-actions)
      variables  `HOME` set
      note       GitHub was not checked (`--offline`)
      note       `command` comes from the variable `HOME`: it was not checked

    1 target of `targets.yaml`: 1 fine
    ");
    assert_snapshot!(check("command: ${{ HOME }}/run-evals adapter"), @r"
    exit 3
    cloud (github-actions)
      variables  `HOME` set
      note       GitHub was not checked (`--offline`)
      error      AgentV does not replace a reference inside a `command`
                 hint: let the whole `command` be one reference, or write it out

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
}

#[test]
fn each_mistake_is_shown_at_its_line() {
    let workspace = Workspace::new();
    let command =
        "run-evals adapter --target=clod --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {ID}";
    let target = format!(
        "{{ name: cloud, provider: github-actions, repo: o/n, workflow: w.yml, command: '{command}' }}"
    );
    workspace.write("targets.yaml", format!("targets:\n  - {target}\n"));
    let output = workspace.run(&["doctor", "--offline"]).expect(3);
    assert_snapshot!(output.stdout, @r"
    cloud (github-actions)
      note       GitHub was not checked (`--offline`)
      error      AgentV has no placeholder `{ID}`
                   --> targets.yaml:2:177
                    |
                  2 | …-prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {ID}' }
                    |                                                              ^^^^
                 hint: it replaces `{PROMPT}`, `{PROMPT_FILE}`, `{EVAL_ID}`, `{ATTEMPT}`, `{FILES}`, `{OUTPUT_FILE}`
      error      `adapter` needs `{EVAL_ID}`
                   --> targets.yaml:2:83
                    |
                  2 | …vider: github-actions, repo: o/n, workflow: w.yml, command: 'run-evals adapter --target=clod --prompt-file {PROMPT_FILE}…
                    |                                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
                 hint: add `--id {EVAL_ID}`
      error      `command` names a target that does not exist: `clod`
                   --> targets.yaml:2:111
                    |
                  2 | … o/n, workflow: w.yml, command: 'run-evals adapter --target=clod --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE}…
                    |                                                              ^^^^
                 hint: write `--target cloud`
      warning    `command` does not begin with an absolute path
                   --> targets.yaml:2:84
                    |
                  2 | …ider: github-actions, repo: o/n, workflow: w.yml, command: 'run-evals adapter --target=clod --prompt-file {PROMPT_FILE} …
                    |                                                              ^^^^^^^^^
                 hint: AgentV runs it in the suite's directory with a shell's `PATH`: write `/usr/local/bin/run-evals adapter …`, with the path of your run-evals

    1 target of `targets.yaml`: 0 fine, 1 cannot be used
    ");
}

#[test]
fn a_key_in_a_command_is_not_shown() {
    const KEY: &str = "sk-fake-0123456789";
    for command in
        [format!("OPENAI_API_KEY={KEY} run-evals {{X}}"), format!("run-evals --api-key {KEY} {{X}}")]
    {
        let workspace = Workspace::new();
        let target = "name: cloud, provider: github-actions, repo: o/n, workflow: w.yml";
        workspace.write("targets.yaml", format!("targets:\n  - {{ {target}, command: '{command}' }}\n"));
        let output = workspace.run(&["doctor", "--offline", "-vv"]).expect(3);
        let shown = format!("{}{}", output.stdout, output.stderr);
        assert!(shown.contains("run-evals") && shown.contains("****** "), "the line is drawn:\n{shown}");
        assert!(!shown.contains(KEY), "{shown}");
    }
}
