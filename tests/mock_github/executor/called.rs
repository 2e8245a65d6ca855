//! Jobs that call another workflow: its jobs replace them.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::expression::{self, Context};
use crate::workflow_file;

const FOLDER: &str = ".github/workflows/";
const LEVELS: [&str; 3] = ["none", "read", "write"];

/// A job to plan, from the file itself or from a called one.
#[derive(Debug, Clone)]
pub(super) struct Defined {
    /// Its key, prefixed with the key of the caller.
    pub(super) key: String,
    /// Its definition.
    pub(super) definition: Value,
    /// The keys of the jobs that it needs.
    pub(super) needs: Vec<String>,
    /// The prefix of its name.
    pub(super) prefix: String,
    /// `inputs` and `secrets` of the called workflow, instead of the run's own.
    pub(super) given: Option<(Value, Value)>,
}

/// All jobs of a workflow; called workflows are read from the repository of the action.
pub(super) fn expand(
    workflow: &Value,
    context: &Context,
    action: Option<&Path>,
) -> Result<Vec<Defined>, String> {
    let jobs = workflow["jobs"].as_object().ok_or("the workflow has no jobs")?;
    let mut all: Vec<Defined> = Vec::new();
    let mut callers: Vec<(String, Vec<String>)> = Vec::new();
    for (key, job) in jobs {
        let own = Defined {
            key: key.clone(),
            definition: job.clone(),
            needs: needs(job),
            prefix: String::new(),
            given: None,
        };
        match job["uses"].as_str() {
            None => all.push(own),
            Some(uses) => {
                let inner = called(&own, uses, &workflow["permissions"], context, action)?;
                callers.push((key.clone(), inner.iter().map(|job| job.key.clone()).collect()));
                all.extend(inner);
            }
        }
    }
    for job in &mut all {
        let in_full = |need: &String| match callers.iter().find(|(caller, _)| caller == need) {
            Some((_, inner)) => inner.clone(),
            None => vec![need.clone()],
        };
        job.needs = job.needs.iter().flat_map(in_full).collect();
    }
    Ok(all)
}

/// The jobs of a called workflow.
fn called(
    caller: &Defined,
    uses: &str,
    default_permissions: &Value,
    context: &Context,
    action: Option<&Path>,
) -> Result<Vec<Defined>, String> {
    let (path, _) = uses.split_once('@').unwrap_or((uses, ""));
    let at = path.find(FOLDER).ok_or_else(|| format!("`uses: {uses}` names no workflow"))?;
    let file = action.ok_or("there is no `--action`")?.join(&path[at..]);
    let content = std::fs::read(&file).map_err(|error| format!("`uses: {uses}`: {error}"))?;
    let workflow = workflow_file::parse(path, &content)?;
    let call = &workflow["on"]["workflow_call"];
    if workflow["on"].get("workflow_call").is_none() {
        return Err(format!("`{path}` has no `workflow_call` trigger"));
    }
    let job = &caller.definition;
    let with = expression::interpolate_all(&job["with"], context)?;
    if let Some(name) = with
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
        .find(|name| call["inputs"].get(name).is_none())
    {
        return Err(format!("`{path}` has no input `{name}`"));
    }
    let inputs: Map<String, Value> = call["inputs"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, input)| (name.clone(), with.get(name).unwrap_or(&input["default"]).clone()))
        .collect();
    let secrets = match &job["secrets"] {
        Value::String(word) if word == "inherit" => context.values["secrets"].clone(),
        Value::Object(_) => expression::interpolate_all(&job["secrets"], context)?,
        _ => json!({}),
    };
    let declared = |name: &str| call["secrets"].get(name).is_some();
    if let Some(name) =
        job["secrets"].as_object().into_iter().flatten().map(|(name, _)| name).find(|name| !declared(name))
    {
        return Err(format!("Invalid secret, {name} is not defined in the referenced workflow."));
    }
    let given = Some((Value::Object(inputs), secrets));
    let allowed = [&job["permissions"], default_permissions]
        .into_iter()
        .find(|one| !one.is_null())
        .cloned()
        .unwrap_or_default();
    let inner = workflow["jobs"].as_object().ok_or_else(|| format!("`{path}` has no jobs"))?;
    let one = |(key, definition): (&String, &Value)| {
        let mut definition = definition.clone();
        if definition["permissions"].is_null() {
            definition["permissions"] = [&workflow["permissions"], &allowed]
                .into_iter()
                .find(|one| !one.is_null())
                .cloned()
                .unwrap_or_default();
        }
        no_more_than(&allowed, &definition["permissions"], key)?;
        let own: Vec<String> =
            needs(&definition).iter().map(|need| format!("{} / {need}", caller.key)).collect();
        Ok(Defined {
            key: format!("{} / {key}", caller.key),
            needs: if own.is_empty() { caller.needs.clone() } else { own },
            prefix: format!("{} / ", job["name"].as_str().unwrap_or(&caller.key)),
            definition,
            given: given.clone(),
        })
    };
    inner.iter().map(one).collect()
}

/// A called workflow gets no permission that its caller does not have.
fn no_more_than(allowed: &Value, wanted: &Value, key: &str) -> Result<(), String> {
    let level = |access: &str| LEVELS.iter().position(|level| *level == access).unwrap_or(0);
    for (name, access) in wanted.as_object().into_iter().flatten() {
        let (wanted, allowed) = (access.as_str().unwrap_or("none"), allowed[name].as_str().unwrap_or("none"));
        if level(wanted) > level(allowed) {
            return Err(format!(
                "The nested job '{key}' is requesting '{name}: {wanted}', but is only allowed '{name}: {allowed}'."
            ));
        }
    }
    Ok(())
}

fn needs(job: &Value) -> Vec<String> {
    match &job["needs"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(many) => many.iter().map(expression::as_text).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(caller: &str) -> Result<Vec<Defined>, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join(FOLDER)).unwrap();
        let called = "
on: { workflow_call: { inputs: { size: { type: string, default: small } }, secrets: { A: { required: false } } } }
jobs:
  run: { permissions: { contents: write } }
  finish: { needs: run }
";
        std::fs::write(dir.path().join(FOLDER).join("runner.yml"), called).unwrap();
        let workflow = workflow_file::parse("w.yml", caller.as_bytes()).unwrap();
        let context = Context { values: json!({ "secrets": { "A": "1", "B": "2" } }), ..Context::default() };
        expand(&workflow, &context, Some(dir.path()))
    }

    #[test]
    fn the_jobs_of_the_called_workflow_replace_the_caller() {
        let jobs = expanded(
            "
jobs:
  before: {}
  evals:
    needs: before
    uses: agentv/run-evals/.github/workflows/runner.yml@v1
    permissions: { contents: write, actions: read }
    secrets: { A: '${{ secrets.A }}' }
  after: { needs: evals }
",
        )
        .unwrap();
        let shown: Vec<String> =
            jobs.iter().map(|job| format!("{}: after {}", job.key, job.needs.join(", "))).collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        before: after 
        evals / run: after before
        evals / finish: after evals / run
        after: after evals / run, evals / finish
        ");
        assert_eq!(jobs[1].given, Some((json!({ "size": "small" }), json!({ "A": "1" }))));
        assert_eq!(jobs[2].definition["permissions"]["actions"], "read");
    }

    #[test]
    fn a_called_workflow_gets_at_most_its_callers_permissions() {
        let call = |more: &str| {
            format!(
                "permissions: {{}}\njobs: {{ evals: {{ uses: x/y/.github/workflows/runner.yml@v1 {more} }} }}"
            )
        };
        let problems = [call(""), call(", permissions: { contents: write }, with: { count: 1 }")]
            .map(|file| expanded(&file).unwrap_err());
        insta::assert_snapshot!(problems.join("\n"), @r"
        The nested job 'run' is requesting 'contents: write', but is only allowed 'contents: none'.
        `x/y/.github/workflows/runner.yml` has no input `count`
        ");
    }
}
