//! A workspace with paid results, so that there is something to lose.

use super::{MockLlm, Workspace};

/// A server that counts its calls, a target for it, and the results of an earlier batch.
pub(crate) struct PaidResults {
    pub(crate) workspace: Workspace,
    pub(crate) llm: MockLlm,
}

impl PaidResults {
    /// The batch `kept` is run; its results are in `out` and in the exchange.
    pub(crate) fn new() -> Self {
        let llm = MockLlm::start(&[]);
        let workspace = Workspace::new();
        // Unpacked files and leftovers are then visible to `fails`.
        let temporary = workspace.path("tmp");
        std::fs::create_dir(&temporary).unwrap();
        let workspace = workspace.env("TMPDIR", temporary.to_str().unwrap());
        workspace.write_target(&llm.base_url(), "");
        workspace.write_requests(1);
        workspace.dispatch(&["--batch-id", "kept"]).expect(0);
        assert_eq!(workspace.rows("out/responses.jsonl").len(), 1);
        assert_eq!(llm.counter("requests"), 1);
        Self { workspace, llm }
    }

    /// The full message of a command that must end with exit code 3, without a call, a result or a leftover.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        self.fails(3, args)
    }

    /// The same, with another exit code.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let before = self.workspace.tree();
        let output = self.workspace.run(args).expect(code);
        assert_eq!(output.stdout, "", "stdout is for data");
        assert_eq!(self.llm.counter("requests"), 1, "a call was made");
        let after = self.workspace.tree();
        for (path, content) in &after {
            assert!(before.get(path) == Some(content), "new or changed: {}", path.display());
        }
        for path in before.keys() {
            assert!(after.contains_key(path), "lost: {}", path.display());
        }
        self.comparable(&output.stderr)
    }

    /// The message without values that differ between runs.
    pub(crate) fn comparable(&self, message: &str) -> String {
        let message = message.replace(self.workspace.root().to_str().unwrap(), "[dir]");
        let words = message.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
        words
            .map(|word| {
                let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
                let is_digest = bare.len() == 64 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
                if is_digest { word.replace(bare, "[sha256]") } else { word.to_owned() }
            })
            .collect()
    }
}
