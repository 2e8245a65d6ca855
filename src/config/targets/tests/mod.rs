//! How good files are read, and the message for every bad one.

mod bad;
mod docs;
mod good;
mod keyless;

use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

use super::*;
use crate::config::Env;
use crate::model::{
    Api, Endpoint, Exit, MockReply, MockSettings, Price, Provider, RemoteResults, RemoteTarget,
    ResponseFormat, RunnerTarget, Shards, Target,
};

/// A key that no message may show.
const KEY: &str = "sk-test-0123456789abcdef";

fn load(yaml: &str) -> Result<(TargetsFile, Vec<String>), Failure> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("targets.yaml");
    std::fs::write(&path, yaml).unwrap();
    let loaded = TargetsFile::load(&path, Path::new("targets.yaml"));
    if loaded.is_ok() {
        editors_like(yaml);
    }
    loaded
}

/// Checks that whatever the readers accept is also valid in editors.
fn editors_like(yaml: &str) {
    static VALIDATOR: LazyLock<jsonschema::Validator> =
        LazyLock::new(|| jsonschema::draft7::new(&targets_schema()).unwrap());
    let text = yaml.trim_start_matches('\u{feff}');
    let value = Document::parse("targets.yaml", text).unwrap().root.to_json();
    let errors: Vec<String> =
        VALIDATOR.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}\n{yaml}");
}

fn env() -> Env {
    Env::from([("KEY", KEY), ("ODD", "odd-0123456789abcdef"), ("EMPTY", "")])
}

/// The message, then the hint that the reporter prints.
fn told(failure: &Failure) -> String {
    assert_eq!(failure.exit(), Exit::Config);
    let hint = failure.hint_text().map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default();
    let told = format!("{failure}{hint}");
    assert!(!told.contains(KEY) && !told.contains("0123456789abcdef"), "the key is shown:\n{told}");
    told
}

/// The result of loading this file.
fn refused(yaml: &str) -> String {
    told(&load(yaml).expect_err("the file is bad"))
}

/// The result of resolving a target of a good file.
fn unresolved(yaml: &str, name: &str, env: &Env) -> String {
    let (file, _) = load(yaml).unwrap();
    told(&file.resolve(name, env).expect_err("the target is bad"))
}

/// One entry, written as its lines.
fn one(lines: &str) -> String {
    let lines: Vec<String> = lines.trim().lines().map(|line| format!("    {}", line.trim())).collect();
    format!("targets:\n  - name: t\n{}\n", lines.join("\n"))
}

fn runner(yaml: &str, env: &Env) -> RunnerTarget {
    let (file, warnings) = load(yaml).unwrap();
    assert_eq!(warnings, [""; 0]);
    match file.resolve("t", env).unwrap() {
        Target::Runner(target) => *target,
        Target::Remote(target) => panic!("{target:?}"),
    }
}

fn remote(yaml: &str) -> RemoteTarget {
    let (file, warnings) = load(yaml).unwrap();
    assert_eq!(warnings, [""; 0]);
    match file.resolve("t", &env()).unwrap() {
        Target::Remote(target) => *target,
        Target::Runner(target) => panic!("{target:?}"),
    }
}

fn mock(lines: &str) -> MockSettings {
    match runner(&one(&format!("provider: mock\n{lines}")), &env()).provider {
        Provider::Mock(settings) => settings,
        other @ Provider::Api(_) => panic!("{other:?}"),
    }
}

fn endpoint(provider: &Provider) -> &Endpoint {
    provider.endpoint().unwrap_or_else(|| panic!("{provider:?}"))
}

/// `base_url`, and the key if there is one.
fn reached(provider: &Provider) -> (&str, Option<&str>) {
    let endpoint = endpoint(provider);
    (&endpoint.base_url, endpoint.auth.secrets().next().map(crate::model::Secret::expose))
}
