//! The JSON Schema against the readers: the same keys, the same values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use jsonschema::Validator;
use run_evals::testing::{Document, TargetsFile};
use serde_json::{Map, Value, json};

use crate::support::Workspace;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let output = Workspace::new().run(&["targets", "schema"]).expect(0);
    assert_eq!(output.stderr, "");
    serde_json::from_str(&output.stdout).unwrap()
});
static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| jsonschema::draft7::new(&SCHEMA).unwrap());

/// The minimal target of each kind.
fn kinds() -> BTreeMap<&'static str, Map<String, Value>> {
    let key = "${{ KEY }}";
    let minimal = json!({
        "openai": { "provider": "openai", "api_key": key },
        "anthropic": { "provider": "anthropic", "api_key": key },
        "gemini": { "provider": "gemini", "api_key": key },
        "azure": { "provider": "azure", "api_key": key, "base_url": "my-resource" },
        "openai-compatible": { "provider": "openai-compatible", "base_url": "http://localhost:8000/v1" },
        "openrouter": { "provider": "openrouter", "api_key": key },
        "mock": { "provider": "mock" },
        "github-actions": { "provider": "github-actions", "repo": "o/n", "workflow": "w.yml" },
        "link": { "use_target": "other" },
    });
    let Value::Object(minimal) = minimal else { unreachable!() };
    let named = |(kind, target): (String, Value)| {
        let kind: &'static str = kind.leak();
        let mut named = Map::from_iter([("name".to_owned(), Value::from("t"))]);
        named.extend(target.as_object().unwrap().clone());
        (kind, named)
    };
    minimal.into_iter().map(named).collect()
}

/// The result of reading a file; JSON is YAML.
fn read(file: &Value) -> Result<(), String> {
    let parsed = TargetsFile::parse(file.to_string().into_bytes(), Path::new("t.yaml"), Path::new(""));
    parsed.map(drop).map_err(|failure| failure.to_string())
}

fn file(target: &Map<String, Value>) -> Value {
    json!({ "targets": [target] })
}

fn properties(definition: &str) -> BTreeSet<String> {
    SCHEMA["definitions"][definition]["properties"].as_object().unwrap().keys().cloned().collect()
}

/// The legal keys that the reader lists in place of an unknown one.
fn expected_keys(target: &Map<String, Value>, nested: Option<&str>) -> BTreeSet<String> {
    let mut target = target.clone();
    match nested {
        Some(key) => target.insert(key.to_owned(), json!({ "zzzzzzzzzzzzzzzz": 1 })),
        None => target.insert("zzzzzzzzzzzzzzzz".to_owned(), Value::from(1)),
    };
    let message = read(&file(&target)).unwrap_err();
    let legal = message.lines().find_map(|line| line.strip_prefix("hint: legal ")).unwrap();
    let (_, legal) = legal.split_once(": ").unwrap();
    legal.split(", ").map(|key| key.trim_matches('`').to_owned()).collect()
}

#[test]
fn the_schema_in_docs_is_the_printed_one() {
    let output = Workspace::new().run(&["targets", "schema"]).expect(0);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/targets.schema.json");
    let kept = std::fs::read_to_string(path).unwrap();
    assert!(
        kept == output.stdout,
        "docs/targets.schema.json is stale: run `UPDATE_DOCS=1 cargo test --lib targets::tests::docs`"
    );
}

#[test]
fn the_schema_is_valid_and_documents_every_key() {
    jsonschema::meta::validate(&SCHEMA).unwrap();
    let definitions = SCHEMA["definitions"].as_object().unwrap();
    let keys: Vec<_> = definitions.iter().filter(|(name, _)| name.starts_with("key-")).collect();
    assert!(keys.len() > 70, "the test no longer sees the keys: {}", keys.len());
    for (name, key) in keys {
        let about = key["description"].as_str().unwrap();
        assert!(about.ends_with('.') && about.len() > 10, "{name}: {about}");
    }
}

#[test]
fn the_readers_accept_exactly_the_keys_of_the_schema() {
    for (kind, target) in kinds() {
        let (mut expected, legal) = (expected_keys(&target, None), properties(kind));
        // A long list is cut.
        let cut = expected.iter().find(|key| key.contains("` and ")).cloned();
        if let Some(cut) = cut {
            expected.remove(&cut);
            let (last, rest) = cut.split_once("` and ").unwrap();
            expected.insert(last.to_owned());
            let more: usize = rest.trim_end_matches(" more").parse().unwrap();
            assert!(expected.is_subset(&legal), "{kind}: {expected:?}");
            assert_eq!(expected.len() + more, legal.len(), "{kind}");
        } else {
            assert_eq!(expected, legal, "{kind}");
        }
        if properties(kind).contains("price") {
            assert_eq!(expected_keys(&target, Some("price")), properties("price"), "price of {kind}");
        }
    }
}

/// What the schema accepts although the reader does not, and why a pattern cannot express it.
const WIDER: [(&str, &str); 5] = [
    ("poll_interval", "one second or more"),
    ("timeout", "one second or more of a runner repository"),
    ("ref", "the rules of git for names"),
    ("response_format", "what belongs to each type"),
    ("results_branch", "the rules of git for names, and the reserved ones"),
];
/// What the schema rejects although the reader does not, and which check would reject it.
const NARROWER: [(&str, &str); 10] = [
    ("api_format", "AgentV"),
    ("attachments_format", "AgentV"),
    ("command", "AgentV"),
    ("cwd", "AgentV"),
    ("files_format", "AgentV"),
    ("keep_temp_files", "AgentV"),
    ("response_format", "the reader itself, once the environment is known"),
    ("retry_status_codes", "AgentV"),
    ("timeout_seconds", "AgentV"),
    ("verbose", "AgentV"),
];

/// Values of every type, right and wrong for one key or another.
fn samples() -> Vec<Value> {
    let mut samples: Vec<Value> = [
        "x",
        "",
        " ",
        " x ",
        "a\nb",
        "auto",
        "echo",
        "chat",
        "true",
        "5",
        "0.5",
        "90s",
        " 1.5h ",
        "500ms",
        "1.s",
        "90",
        "1d",
        "s",
        "ten",
        "-1s",
        "${{ X }}",
        "p ${{ X }} q",
        "${{ X:-d }}",
        "${{ X:-}}",
        "${{X}}",
        "${{ secrets.X }}",
        "${{ 1x }}",
        "${{ X",
        "$X",
        "${X}",
        "https://h/v1",
        "HTTP://h",
        "ftp://h/v1",
        "https://h/v1?x=1",
        "https://h/#x",
        "https://",
        "o/n",
        "o/n.git",
        "o/..",
        "-o/n",
        "o/n/m",
        "https://github.com/o/n",
        "w.yml",
        "w.yaml",
        "x/w.yml",
        ".yml",
        "w.json",
        "2024-10-21",
        "2025-04-01-preview",
        "v1",
        "v2",
        "2024-1-1",
        "EMPTY",
        "sk-test-0123456789",
        "my-resource",
        "my_resource",
        "json_object",
    ]
    .map(Value::from)
    .to_vec();
    samples.extend([
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(2),
        json!(3),
        json!(256),
        json!(257),
    ]);
    samples.extend([
        json!(1000),
        json!(1001),
        json!(86400),
        json!(86401),
        json!(4_294_967_295_u32),
        json!(4_294_967_296_i64),
    ]);
    samples.extend([json!(0.5), json!(1.5), json!(2.5), json!(-0.5)]);
    samples.extend([
        json!([]),
        json!(["a"]),
        json!([""]),
        json!([1]),
        json!(["${{ X }}", "b"]),
        json!([["a"]]),
        json!(["${{ x.y }}"]),
    ]);
    samples.extend([
        json!({}),
        json!({ "type": "text" }),
        json!({ "type": "json_object" }),
        json!({ "type": "json_schema" }),
        json!({ "type": "xml" }),
        json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": { "type": "object" } } }),
        json!({ "type": "json_schema", "json_schema": { "name": "x y", "schema": {} } }),
        json!({ "type": "json_schema", "json_schema": { "name": "x" } }),
        json!({ "type": "${{ X }}" }),
        json!({ "input_per_mtok": 1, "output_per_mtok": 2.5 }),
        json!({ "input_per_mtok": "${{ X }}", "output_per_mtok": 0, "cached_input_per_mtok": 0.1 }),
        json!({ "input_per_mtok": 1 }),
        json!({ "input_per_mtok": -1, "output_per_mtok": 2 }),
        json!({ "input_per_mtok": 1, "output_per_mtok": 2, "per_mtok": 3 }),
    ]);
    samples
}

#[test]
fn the_readers_accept_exactly_the_values_of_the_schema() {
    const URLS: [&str; 4] = ["base_url", "endpoint", "resource", "resource_name"];
    let (mut taken, mut refused, mut wrong) = (0, 0, Vec::new());
    for (kind, minimal) in kinds() {
        for key in properties(kind) {
            let mut target = minimal.clone();
            if URLS.contains(&key.as_str()) {
                target.retain(|known, _| !URLS.contains(&known.as_str()));
            }
            if key == "budget_usd" {
                target.insert("price".to_owned(), json!({ "input_per_mtok": 1, "output_per_mtok": 2 }));
            }
            for value in samples() {
                // Any other provider name changes everything.
                if key == "provider" {
                    continue;
                }
                target.insert(key.clone(), value.clone());
                let file = file(&target);
                let (by_reader, by_schema) = (read(&file), VALIDATOR.is_valid(&file));
                let excused = |keys: &[(&str, &str)]| keys.iter().any(|(known, _)| *known == key);
                match by_reader {
                    Ok(()) if by_schema => taken += 1,
                    Err(_) if !by_schema => refused += 1,
                    Err(_) if excused(&WIDER) => {}
                    Ok(()) if excused(&NARROWER) => {}
                    Err(why) => wrong.push(format!("{kind}: `{key}: {value}` passes: {why}")),
                    Ok(()) => wrong.push(format!("{kind}: `{key}: {value}` does not pass")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    assert!(taken > 2000 && refused > 5000, "{taken} taken, {refused} refused");
}

#[test]
fn keys_that_require_or_exclude_each_other() {
    let refused = |kind: &str, more: Value| {
        let mut target = kinds()[kind].clone();
        target.extend(more.as_object().unwrap().clone());
        let file = file(&target);
        assert!(read(&file).is_err(), "the reader takes {more} of {kind}");
        assert!(!VALIDATOR.is_valid(&file), "the schema takes {more} of {kind}");
    };
    refused("github-actions", json!({ "results_branch": "x", "results_artifact": true }));
    refused("openai", json!({ "budget_usd": 1 }));
    refused("openai", json!({ "base_url": "https://h", "endpoint": "https://h" }));
    refused("openai", json!({ "model": "m", "variant": "m" }));
    refused("openai", json!({ "max_tokens": 1, "max_output_tokens": 1 }));
    refused("openai", json!({ "grader_target": "a", "judge_target": "a" }));
    refused("openai", json!({ "timeout": "1s", "timeout_seconds": 1 }));
    refused("azure", json!({ "resource": "r" }));
    refused("azure", json!({ "deployment": "d", "deployment_name": "d" }));
    refused("azure", json!({ "version": "v1", "api_version": "v1" }));
    refused("mock", json!({ "mode": "echo", "response": "x" }));
    refused("mock", json!({ "template": "x", "script": "x" }));
    refused("mock", json!({ "use_target": "other" }));
    refused("link", json!({ "model": "m" }));
    for (kind, target) in kinds() {
        let minimal = file(&target);
        assert_eq!(read(&minimal), Ok(()), "{kind}");
        assert!(VALIDATOR.is_valid(&minimal), "{kind}");
        // No key of the minimal target can be left out.
        for key in target.keys() {
            let mut less = target.clone();
            less.remove(key);
            assert!(
                read(&file(&less)).is_err() && !VALIDATOR.is_valid(&file(&less)),
                "{kind} without `{key}`"
            );
        }
    }
    let both = json!({ "results_branch": "x", "results_artifact": false });
    let mut target = kinds()["github-actions"].clone();
    target.extend(both.as_object().unwrap().clone());
    assert!(read(&file(&target)).is_ok() && VALIDATOR.is_valid(&file(&target)));
}

#[test]
fn unknown_providers() {
    for (target, is_fine) in [
        (json!({ "name": "a", "provider": "codex", "model": "x", "anything": { "at": "all" } }), true),
        (json!({ "name": "a", "provider": "my-own", "command": "x {OUTPUT_FILE}", "anything": 1 }), true),
        (json!({ "name": "a", "provider": "${{ PROVIDER }}", "anything": 1 }), true),
        (json!({ "name": "a", "provider": "google", "api_key": "${{ K }}" }), true),
        (json!({ "name": "a", "provider": "azure-openai", "api_key": "${{ K }}", "resource": "r" }), true),
        (json!({ "name": "a", "provider": "opnai", "api_key": "${{ K }}" }), false),
        (json!({ "name": "a", "provider": 5 }), false),
        (json!({ "name": "a" }), false),
        (json!({ "name": "a", "use_target": 5 }), false),
        (json!({ "name": 5, "provider": "mock" }), false),
        (json!({ "name": " a", "provider": "mock" }), false),
        (json!({ "name": "${{ X }}", "provider": "mock" }), false),
        (json!("mock"), false),
    ] {
        let file = json!({ "targets": [target] });
        assert_eq!(read(&file).is_ok(), is_fine, "the reader: {target}");
        assert_eq!(VALIDATOR.is_valid(&file), is_fine, "the schema: {target}");
    }
    for (file, is_fine) in [
        (json!({ "$schema": "https://example.com/x.json", "targets": [] }), true),
        (json!({ "targets": [], "defaults": {} }), false),
        (json!({ "targets": {} }), false),
        (json!([]), false),
    ] {
        assert_eq!((read(&file).is_ok(), VALIDATOR.is_valid(&file)), (is_fine, is_fine), "{file}");
    }
}

#[test]
fn valid_files_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(root.join("fixtures")).into_iter().map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy();
        if name == "targets.yaml" || name == "targets.yml" {
            files.push((entry.path().display().to_string(), std::fs::read_to_string(entry.path()).unwrap()));
        }
    }
    assert!(!files.is_empty());
    // The code blocks of the docs that begin like a targets file.
    for doc in ["README.md", "docs/design.md", "docs/security.md", "docs/agentv.md"] {
        let text = std::fs::read_to_string(root.join(doc)).unwrap();
        for (number, block) in text.split("```yaml\n").skip(1).enumerate() {
            let block = block.split("```").next().unwrap();
            if block.contains("targets:\n  - name:") {
                files.push((format!("{doc}, block {}", number + 1), block.to_owned()));
            }
        }
    }
    assert!(files.len() >= 3, "the test no longer sees the files: {files:?}");
    for (name, text) in files {
        TargetsFile::parse(text.clone().into_bytes(), Path::new(&name), Path::new("")).unwrap();
        let value = Document::parse(&name, text).unwrap().root.to_json();
        let errors: Vec<String> = VALIDATOR.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}
