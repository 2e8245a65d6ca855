//! Links in a checkout: no command writes through them.

use std::os::unix::fs::symlink;

use crate::support::{MockLlm, Workspace};

/// A workspace with one request and a target, and a directory next to it that no command may change.
struct Checkout {
    workspace: Workspace,
    outside: tempfile::TempDir,
    _llm: MockLlm,
}

impl Checkout {
    fn new() -> Self {
        let llm = MockLlm::start(&[]);
        let workspace = Workspace::new();
        workspace.write_target(&llm.base_url(), "");
        workspace.write(
            "suite.eval.yaml",
            "tests:\n  - id: one\n    input: say one\n    assertions: [{ type: contains, value: one }]\n",
        );
        workspace.write_requests(1);
        Self { workspace, outside: crate::support::temporary(), _llm: llm }
    }

    /// A link in the checkout to a path outside of it.
    fn link(&self, name: &str, to: &str) {
        let path = self.workspace.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.outside.path().join(to), path).unwrap();
    }

    /// The message of a rejected command, which wrote nothing outside.
    fn refused(&self, args: &[&str]) -> String {
        let output = self.workspace.run(args).expect(3);
        let outside: Vec<_> = std::fs::read_dir(self.outside.path()).unwrap().map(Result::unwrap).collect();
        assert!(outside.is_empty(), "written through the link: {outside:?}");
        output.stderr.replace(self.outside.path().to_str().unwrap(), "OUTSIDE")
    }
}

const DISPATCH: [&str; 7] =
    ["dispatch", "--requests", "requests.jsonl", "--target", "llm", "--output", "out"];
const EVAL: [&str; 4] = ["eval", "suite.eval.yaml", "--target", "llm"];

#[test]
fn a_link_in_place_of_the_directory_is_rejected() {
    let checkout = Checkout::new();
    checkout.link(".run-evals", "");
    insta::assert_snapshot!(checkout.refused(&DISPATCH), @r"
    error: `.run-evals` is a link to `OUTSIDE/`, expected a directory: nothing is written there

    hint: it may have come with the checkout: look at it, then remove it with `rm '.run-evals'`
    ");
    checkout.refused(&EVAL);
}

#[test]
fn a_link_in_place_of_the_exchange_is_rejected() {
    let checkout = Checkout::new();
    checkout.link(".run-evals/exchange.git", "exchange");
    insta::assert_snapshot!(checkout.refused(&DISPATCH), @r"
    error: `.run-evals/exchange.git` is a link to `OUTSIDE/exchange`, expected a directory: nothing is written there

    hint: it may have come with the checkout: look at it, then remove it with `rm '.run-evals/exchange.git'`
    ");
}

#[test]
fn a_link_in_place_of_the_ignore_file_is_rejected() {
    let checkout = Checkout::new();
    checkout.link(".run-evals/.gitignore", "written");
    insta::assert_snapshot!(checkout.refused(&DISPATCH), @r"
    error: `.run-evals/.gitignore` is a link to `OUTSIDE/written`, expected a file: nothing is written there

    hint: it may have come with the checkout: look at it, then remove it with `rm '.run-evals/.gitignore'`
    ");
}

#[test]
fn a_link_in_place_of_the_results_is_rejected() {
    let checkout = Checkout::new();
    checkout.link(".run-evals/results", "");
    insta::assert_snapshot!(checkout.refused(&EVAL), @r"
    error: `.run-evals/results` is a link to `OUTSIDE/`, expected a directory: nothing is written there

    hint: it may have come with the checkout: look at it, then remove it with `rm '.run-evals/results'`
    ");
}

#[test]
fn a_file_in_place_of_the_directory_is_rejected() {
    let checkout = Checkout::new();
    checkout.workspace.write(".run-evals", "not a directory");
    insta::assert_snapshot!(checkout.refused(&DISPATCH), @r"
    error: `.run-evals` is a file, expected a directory: nothing is written there

    hint: it may have come with the checkout: look at it, then remove it with `rm '.run-evals'`
    ");
}

/// A link that the user created outside of any checkout is trusted.
#[test]
fn a_named_exchange_may_be_a_link() {
    let checkout = Checkout::new();
    let elsewhere = crate::support::temporary();
    symlink(elsewhere.path(), checkout.workspace.path("mine")).unwrap();
    let args = [&DISPATCH[..], &["--exchange", "mine/exchange.git"]].concat();
    checkout.workspace.run(&args).expect(0);
}
