//! The layers of `docs/design.md`: a module uses only lower layers.

use std::path::{Path, PathBuf};

/// The files that start programs other than git: commands of suites and rollouts, `gh`, `ps` and the browser.
const OTHER_PROGRAMS: [&str; 6] = [
    "bundle/verify_run.rs",
    "adapter/process_tree.rs",
    "github/token.rs",
    "engine/grade/command.rs",
    "engine/report/browser.rs",
    "rollout/agent.rs",
];

#[test]
fn modules_use_only_lower_layers() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let layers = layers();
    let layer = |module: &str| layers.iter().position(|layer| layer.iter().any(|name| name == module));
    let (mut wrong, mut uses) = (Vec::new(), 0);
    for file in rust_files(&src) {
        let module = module_of(file.strip_prefix(&src).unwrap());
        let from = layer(&module).unwrap_or_else(|| panic!("{}: no layer for `{module}`", file.display()));
        for (number, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            assert!(!line.contains("crate::{"), "{}: write one `use` a module", file.display());
            for used in used_modules(line) {
                let to = layer(&used).unwrap_or_else(|| panic!("{}: no layer for `{used}`", file.display()));
                uses += 1;
                if used != module && (to >= from) {
                    wrong.push(format!("{}:{}: `{module}` uses `{used}`", file.display(), number + 1));
                }
            }
        }
    }
    for module in layers.iter().flatten() {
        let exists = src.join(module).is_dir() || src.join(module).with_extension("rs").is_file();
        assert!(exists, "docs/design.md lists `{module}`, which does not exist");
    }
    assert!(uses > 50, "the test no longer sees the uses: {uses}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Only one module renames and syncs files, so that written files survive a power cut.
#[test]
fn only_the_durable_module_renames_and_syncs_files() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in rust_files(&src) {
        let name = file.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let is_test = name.ends_with("tests.rs") || name.contains("tests/");
        if is_test || name.starts_with("util/durable/") {
            continue;
        }
        for (number, line) in code.lines().enumerate() {
            // The methods of `NamedTempFile` and `File`; those of other types take a closure or have another name.
            let renames = line.contains(".persist(") && !line.contains(".persist(async");
            let syncs = ["persist_noclobber", ".sync_all(", ".sync_data(", "fs::rename("]
                .iter()
                .any(|name| line.contains(name));
            if renames || syncs {
                wrong.push(format!("src/{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "use `util::durable`:\n{}", wrong.join("\n"));
}

/// The next process finds and removes the temporary files of a killed one.
#[test]
fn temporary_directories_are_work_dirs() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for file in rust_files(&src) {
        let name = file.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\n").next().unwrap();
        let is_test = name.split('/').any(|part| part.starts_with("tests"));
        for (number, line) in code.lines().enumerate().filter(|_| !is_test && name != "util/durable/crash.rs")
        {
            let made = ["tempdir()", "tempdir_in(", "TempDir::new", "TempDir::with_prefix("];
            if !["util/work_dir.rs", "git/repository.rs"].contains(&name.as_str())
                && made.iter().any(|made| line.contains(made))
            {
                wrong.push(format!("src/{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "use `util::WorkDir`:\n{}", wrong.join("\n"));
}

#[test]
fn git_is_started_in_one_place() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut wrong, mut starts) = (Vec::new(), 0);
    for file in rust_files(&src) {
        let name = file.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        // Tests are at the end of a file, or in separate files.
        let is_test = name.split('/').any(|part| part.starts_with("tests"));
        let code = if is_test { "" } else { text.split("#[cfg(test)]\nmod ").next().unwrap() };
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap();
            // In `git`, only the wrapper creates processes; elsewhere, other programs are started.
            let is_start = if name.starts_with("git/") {
                line.contains("Command")
                    && !["git/command.rs", "git/process.rs", "git/watchdog.rs"].contains(&name.as_str())
            } else {
                line.contains("Command::new") && !OTHER_PROGRAMS.contains(&name.as_str())
            };
            starts += usize::from(name == "git/command.rs" && line.contains("Command::new"));
            // Under another name, a start would not be seen here.
            let is_renamed = line.contains("Command as ") && !line.contains("clap");
            if is_start || is_renamed || line.contains("Command::new(\"git") {
                wrong.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_eq!(starts, 1, "the test no longer sees where git is started");
    assert!(wrong.is_empty(), "start git through `git::command::Git`:\n{}", wrong.join("\n"));
}

#[test]
fn paths_named_in_the_docs_exist() {
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

/// The modules of each row of the table in `docs/design.md`, from the bottom to the top.
fn layers() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/design.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split("\n## ").find(|section| section.starts_with("Layers\n")).unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let names = |row: &str| {
        let cell = row.split('|').nth(1).unwrap();
        cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
    };
    rows.map(names).collect()
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
