//! The layers of `docs/design.md`: a module uses only what stands before it.

use std::path::{Path, PathBuf};

/// From the bottom to the top. Modules of one layer do not use each other, but for the last.
const LAYERS: [&[&str]; 6] = [
    &["model"],
    &["config", "github", "git", "providers", "archive"],
    &["exchange", "scoring", "leaderboard", "report"],
    &["dispatcher", "runner", "bundle", "sync"],
    &["grade", "evaluate", "rollout", "adapter", "trigger"],
    &["serve", "cli", "action", "error", "logging", "main", "lib"],
];

#[test]
fn modules_use_only_lower_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut wrong, mut uses) = (Vec::new(), 0);
    for file in rust_files(&src) {
        let module = module_of(file.strip_prefix(&src).unwrap());
        let from = layer(&module).unwrap_or_else(|| panic!("{}: no layer for `{module}`", file.display()));
        for (number, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            assert!(!line.contains("crate::{"), "{}: write one `use` a module", file.display());
            for used in used_modules(line) {
                let to = layer(&used).unwrap_or_else(|| panic!("{}: no layer for `{used}`", file.display()));
                uses += 1;
                if used != module && (to > from || to == from && from + 1 < LAYERS.len()) {
                    wrong.push(format!("{}:{}: `{module}` uses `{used}`", file.display(), number + 1));
                }
            }
        }
    }
    assert!(uses > 50, "the test no longer sees the uses: {uses}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn paths_that_the_docs_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for doc in ["README.md", "CONTRIBUTING.md", "docs/design.md"] {
        let text = std::fs::read_to_string(root.join(doc)).unwrap();
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = ["src/", "tests/", "fixtures/", "benches/", "examples/", "docs/", ".ci/"]
                .iter()
                .any(|folder| quoted.starts_with(folder));
            if is_path && !quoted.contains(['*', '<', ' ', '{']) {
                assert!(root.join(quoted).exists(), "{doc} names `{quoted}`, which does not exist");
            }
        }
    }
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

fn module_of(path: &Path) -> String {
    let first = path.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

fn used_modules(line: &str) -> impl Iterator<Item = String> {
    let code = line.split("//").next().unwrap_or_default();
    code.split("crate::").skip(1).filter_map(|rest| {
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (!name.is_empty()).then_some(name)
    })
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
