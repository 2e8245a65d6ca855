//! Whatever a suite contains, no path leaves its bundle and no secret gets into it.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::Config;

use super::{ECHO, contents, repository};

const SECRET: &str = "sk-live-0123456789abcdefghijklmnop";

/// Paths that are legal, and paths that are not.
fn paths() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => Just("docs"), 4 => Just("a.md"), 2 => Just(".."), 1 => Just("."), 1 => Just("deep"), 1 => Just("link"),
        1 => Just("${{ PLACE }}"), 1 => Just("${{ API_TOKEN }}"), 1 => Just("out.md"),
    ];
    (prop::collection::vec(part, 1..5), prop_oneof![4 => Just(""), 1 => Just("/"), 1 => Just("./")])
        .prop_map(|(parts, start)| format!("{start}{}", parts.join("/")))
}

proptest! {
    #![proptest_config(Config { cases: 96, failure_persistence: None, ..Config::default() })]

    #[test]
    fn no_path_leaves_the_bundle_and_no_secret_gets_in(
        file in paths(), template in paths(), script in paths(), cwd in paths(), capture in any::<bool>(),
    ) {
        let suite = format!(
            "input: 'say ${{{{ API_TOKEN }}}} and ${{{{ PLACE }}}}'\nworkspace:\n  template: '{template}'\n  hooks:\n    before_each: {{command: 'sh {script}', cwd: '{cwd}'}}\ntests:\n  - id: one\n    criteria: c\n    input_files: ['{file}']\n    input: hello\n    assertions:\n      - {{type: code-grader, name: x, command: 'cat {script} ../{file}'}}\n"
        );
        let workspace = repository(&[
            ECHO,
            ("evals/suite.eval.yaml", &suite),
            ("evals/docs/a.md", "a"),
            ("evals/a.md", "b"),
            ("docs/deep/a.md", "c"),
        ]);
        workspace.write("out.md", "outside");
        workspace.write("a.md", "outside");
        std::os::unix::fs::symlink("../docs", workspace.path("repo/evals/link")).unwrap();
        std::os::unix::fs::symlink("../..", workspace.path("repo/docs/link")).unwrap();
        let workspace = workspace.env("API_TOKEN", SECRET).env("PLACE", "docs");
        let mut args = vec!["bundle", "repo/evals/suite.eval.yaml", "-q", "-o", "out"];
        args.extend(capture.then_some("--capture-env"));
        let output = workspace.run(&args);
        let out = workspace.path("out");
        if output.code != Some(0) {
            prop_assert_eq!(output.code, Some(3), "{}", output.stderr);
            prop_assert!(!out.exists());
            return Ok(());
        }
        for (path, (mode, content)) in contents(&out) {
            prop_assert!(!String::from_utf8_lossy(&content).contains(SECRET), "{path:?}");
            prop_assert!(!String::from_utf8_lossy(&content).contains("outside"), "{path:?}");
            if mode == 0 {
                let target = out.join(path.parent().unwrap_or(Path::new(""))).join(String::from_utf8(content).unwrap());
                let real = target.canonicalize().map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert!(real.starts_with(out.canonicalize().unwrap()), "{path:?} {real:?}");
            }
        }
        prop_assert_eq!(workspace.run(&["bundle", "verify", "out"]).code, Some(0));
    }
}
