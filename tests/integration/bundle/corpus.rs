//! The suites of `fixtures/bundle`, each bundled in several ways that must give the same bytes.

use std::path::{Component, Path};

use run_evals::testing::Document;
use serde_json::Value;

use super::{check_out, contents, fixtures, manifest, workspace};

#[test]
fn the_corpus_has_enough_suites() {
    assert!(fixtures().len() >= 40, "{}", fixtures().len());
}

#[test]
fn bundles_have_the_same_bytes_in_every_directory_at_every_time_for_every_user() {
    for fixture in fixtures() {
        let workspace = workspace();
        let first = check_out(&workspace, &fixture, "one/repo");
        let second = check_out(&workspace, &fixture, "another/place/of/it");
        let bundle = |suite: &Path, out: &str, more: &[(&str, &str)]| {
            let mut command = workspace.command(&["bundle", suite.to_str().unwrap(), "-q", "-o", out]);
            // AgentV starts in the repository, and some references are relative to it.
            command.current_dir(repository_of(suite)).envs(more.iter().copied());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{fixture}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let (a, b) = (workspace.path("out/a"), workspace.path("out/b"));
        bundle(&first, a.to_str().unwrap(), &[]);
        bundle(
            &second,
            b.to_str().unwrap(),
            &[("USER", "somebody"), ("TZ", "Asia/Tokyo"), ("LANG", "de_DE.UTF-8")],
        );
        assert_eq!(contents(&a), contents(&b), "{fixture}: another place");
        // Bundle again to the same directory, which is in the repository.
        let inside = repository_of(&first).join("dist/bundle");
        bundle(&first, inside.to_str().unwrap(), &[]);
        bundle(&first, inside.to_str().unwrap(), &[]);
        assert_eq!(contents(&a), contents(&inside), "{fixture}: twice");
        let c = workspace.path("out/c");
        bundle(&a.join("eval.yaml"), c.to_str().unwrap(), &[]);
        assert_eq!(contents(&a), contents(&c), "{fixture}: a bundle of a bundle");
        workspace.run(&["bundle", "verify", a.to_str().unwrap()]).expect(0);
        check_paths(&a, &fixture);
        assert_eq!(manifest(&a)["source"]["dirty"], false, "{fixture}");
    }
}

/// No path of a bundle leaves the bundle, and none is absolute.
fn check_paths(dir: &Path, fixture: &str) {
    for (path, (mode, content)) in contents(dir) {
        assert!(
            path.components().all(|part| matches!(part, Component::Normal(_))),
            "{fixture}: {}",
            path.display()
        );
        if mode == 0 {
            let target = dir.join(path.parent().unwrap()).join(String::from_utf8(content).unwrap());
            let real = target.canonicalize().unwrap();
            assert!(
                real.starts_with(dir.canonicalize().unwrap()),
                "{fixture}: {} leads to {}",
                path.display(),
                real.display()
            );
        }
    }
    for file in ["eval.yaml", "targets.yaml"] {
        let text = std::fs::read_to_string(dir.join(file)).unwrap();
        let json = Document::parse(file, text).unwrap().root.to_json();
        references(&json, "", &mut |key, text| {
            let path = text.strip_prefix("file://").unwrap_or(text);
            assert!(!path.starts_with('/'), "{fixture}: {file}: `{key}: {text}`");
            if matches!(key, "cwd" | "template" | "fixtures" | "input_files") || text.starts_with("file://") {
                assert!(path.contains("{{") || dir.join(path).exists(), "{fixture}: {file}: no `{path}`");
            }
        });
    }
}

fn references(json: &Value, key: &str, each: &mut impl FnMut(&str, &str)) {
    match json {
        Value::String(text) => each(key, text),
        Value::Array(items) => items.iter().for_each(|item| references(item, key, each)),
        Value::Object(map) => map.iter().for_each(|(key, value)| references(value, key, each)),
        _ => {}
    }
}

fn repository_of(suite: &Path) -> std::path::PathBuf {
    suite
        .ancestors()
        .find(|dir| dir.join(".git").exists())
        .unwrap_or_else(|| suite.parent().unwrap())
        .to_owned()
}
