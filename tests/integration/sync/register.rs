//! `sync --register`: AgentV's own registry gets one more project, and stays as it was otherwise.

use std::os::unix::fs::PermissionsExt as _;

use super::Bench;

const FILE: &str = ".agentv/config.yaml";

impl Bench {
    /// What AgentV's file is after a registration, with the directory and the times left out.
    fn registered(&self, before: &str) -> String {
        self.workspace.write(FILE, before);
        let output = self.sync(&["--register"]).expect(0);
        assert!(output.stderr.contains("one: added to `projects` in `"), "{}", output.stderr);
        self.config()
    }

    fn config(&self) -> String {
        let text = self.workspace.read(FILE).replace(self.workspace.root().to_str().unwrap(), "[dir]");
        let without_time = |line: &str| match line.split_once("_at: 20") {
            Some((name, _)) => format!("{name}_at: [time]"),
            None => line.to_owned(),
        };
        text.split('\n').map(without_time).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn a_file_of_ones_own_keeps_its_comments_and_its_mode() {
    let bench = Bench::new();
    bench.workspace.write(FILE, "");
    let file = bench.workspace.path(FILE);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = "# mine\ndashboard: { app_name: Evals } # kept\n\nprojects: # all of them\n    # the first\n    - id: old\n      name: |\n        Old\n\n        and good\n      path: /somewhere/old\n\n    # after\nresults: { auto_push: true }\n";
    insta::assert_snapshot!(bench.registered(before), @r"
    # mine
    dashboard: { app_name: Evals } # kept

    projects: # all of them
        # the first
        - id: old
          name: |
            Old

            and good
          path: /somewhere/old
        - id: one
          name: one
          path: [dir]/clones/one
          added_at: [time]
          last_opened_at: [time]

        # after
    results: { auto_push: true }
    ");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let before = std::fs::read(&file).unwrap();
    let again = bench.sync(&["--register"]).expect(0);
    assert!(again.stderr.contains("one: AgentV already has it, as the project `one`"), "{}", again.stderr);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn every_way_to_write_the_list_gets_one_more() {
    const ENTRY: &str = "  - id: one\n    name: one\n    path: [dir]/clones/one\n    added_at: [time]\n    last_opened_at: [time]\n";
    for (before, after) in [
        ("", format!("projects:\n{ENTRY}")),
        ("# nothing yet\n", format!("# nothing yet\nprojects:\n{ENTRY}")),
        ("a: 1", format!("a: 1\nprojects:\n{ENTRY}")),
        ("projects: []\na: 1\n", format!("projects:\n{ENTRY}a: 1\n")),
        ("a: 1\nprojects: # none\n", format!("a: 1\nprojects: # none\n{ENTRY}")),
        (
            "projects:\n- {id: x, name: x, path: /x}\n",
            format!(
                "projects:\n- {{id: x, name: x, path: /x}}\n{}",
                ENTRY.replace("\n  ", "\n").trim_start().to_owned()
            ),
        ),
        ("a: 1\r\nprojects:\r\n  - {id: x, name: x, path: /x}\r\n", {
            let entry = ENTRY.replace('\n', "\r\n").replace("[time]\r", "[time]");
            format!("a: 1\r\nprojects:\r\n  - {{id: x, name: x, path: /x}}\r\n{entry}")
        }),
    ] {
        let bench = Bench::new();
        assert_eq!(bench.registered(before), after, "{before:?}");
    }
}

#[test]
fn a_list_in_a_file_of_its_own_and_a_link_are_followed() {
    let bench = Bench::new();
    bench.workspace.write(".agentv/projects.yaml", "- { id: x, name: x, path: /x }\n");
    bench.workspace.write(FILE, "projects: file://projects.yaml\n");
    bench.sync(&["--register"]).expect(0);
    assert_eq!(bench.workspace.read(FILE), "projects: file://projects.yaml\n");
    let listed = bench.workspace.read(".agentv/projects.yaml");
    assert!(listed.starts_with("- { id: x, name: x, path: /x }\n- id: one\n"), "{listed}");

    let bench = Bench::new();
    bench.workspace.write("dotfiles/agentv.yaml", "a: 1\n");
    std::os::unix::fs::symlink(bench.workspace.path("dotfiles/agentv.yaml"), bench.workspace.path(FILE))
        .unwrap();
    bench.sync(&["--register"]).expect(0);
    assert!(bench.workspace.path(FILE).is_symlink());
    assert!(bench.workspace.read("dotfiles/agentv.yaml").contains("- id: one\n"));
}

#[test]
fn an_entry_that_cannot_be_added_is_reported_and_nothing_is_written() {
    let told = |before: &str| {
        let bench = Bench::new();
        bench.synced(&[]);
        bench.workspace.write(FILE, before);
        let output = bench.sync(&["--register", "-q"]).expect(3);
        assert_eq!(bench.workspace.read(FILE), before);
        bench.message(&output)
    };
    insta::assert_snapshot!(told("projects: [{ id: x, name: x, path: /x }]\n"), @r"
    error: cannot add `one` to `projects` in `[dir]/.agentv/config.yaml`

    hint: add it by hand under `projects:`: `- { id: one, name: 'one', path: '[dir]/clones/one' }`
    ");
    insta::assert_snapshot!(told("projects:\n  - { id: one, name: x, path: /x }\n"), @r"
    error: `one` is already a project in `[dir]/.agentv/config.yaml`, with the path `/x`

    hint: remove that entry, or give the benchmark another `id`
    ");
    assert!(told("{ a: 1 }\n").starts_with("error: cannot add `one` to `projects`"));
}

#[test]
fn a_benchmark_that_was_not_synced_is_not_registered() {
    let bench = Bench::new();
    bench.register("url: 'http://127.0.0.1:1/o/bench', ref: main");
    bench.sync(&["--register"]).expect(1);
    assert!(!bench.workspace.path(FILE).exists());
}
