//! What a workflow file says about dispatches: its `workflow_dispatch` inputs, and the job that calls the models. It reads
//! only enough to find problems before a dispatch.

use super::{Document, Invalid, Node, NodeValue};

/// The inputs of a workflow that can be dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowInputs {
    /// All names, in file order.
    pub declared: Vec<String>,
    /// The required ones.
    pub required: Vec<String>,
}

impl WorkflowInputs {
    /// Reads a workflow file; `None` if it has no `workflow_dispatch` trigger.
    pub fn read(path: &str, text: &str) -> Result<Option<Self>, Invalid> {
        let document = Document::parse(path, text)?;
        let Some(on) = get(&document.root, "on") else { return Ok(None) };
        let names_it = |node: &Node| node.as_str() == Some("workflow_dispatch");
        let none = Self { declared: Vec::new(), required: Vec::new() };
        if names_it(on) || on.items().is_some_and(|items| items.iter().any(names_it)) {
            return Ok(Some(none));
        }
        let Some(trigger) = get(on, "workflow_dispatch") else { return Ok(None) };
        let inputs = get(trigger, "inputs").and_then(Node::entries).unwrap_or_default();
        let required = inputs.iter().filter(|(_, input)| {
            let is = |key, value| get(input, key).is_some_and(|node| node.value == value);
            is("required", NodeValue::Bool(true)) && get(input, "default").is_none()
        });
        Ok(Some(Self {
            declared: inputs.iter().map(|(key, _)| key.text.clone()).collect(),
            required: required.map(|(key, _)| key.text.clone()).collect(),
        }))
    }
}

/// The job of a workflow that calls the models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunnerJob {
    /// The action or the reusable workflow, such as `agentv/run-evals@v1`.
    pub uses: String,
    /// The environment that holds the keys.
    pub environment: Option<String>,
    /// The variables of the step with their expressions; for a reusable workflow, the secrets passed to it.
    pub env: Vec<(String, String)>,
    /// Whether it has `id-token: write`.
    pub may_request_identity: bool,
}

impl RunnerJob {
    /// The environment of the reusable workflow, unless its caller names another.
    const DEFAULT_ENVIRONMENT: &str = "run-evals";

    /// Finds the job that runs `mode: run`, or that calls the reusable workflow.
    pub fn read(path: &str, text: &str) -> Result<Option<Self>, Invalid> {
        let document = Document::parse(path, text)?;
        let root = &document.root;
        let jobs = get(root, "jobs").and_then(Node::entries).unwrap_or_default();
        Ok(jobs.iter().find_map(|(_, job)| Self::of_step(root, job).or_else(|| Self::of_call(root, job))))
    }

    fn of_step(root: &Node, job: &Node) -> Option<Self> {
        let with = |step: &Node, key: &str| get(step, "with").and_then(|with| get(with, key)).cloned();
        let step = get(job, "steps")?.items()?.iter().find(|step| {
            with(step, "mode").is_some_and(|mode| mode.as_str() == Some("run"))
                && with(step, "finish").is_none()
        })?;
        let uses = get(step, "uses")?.as_str()?.to_owned();
        let environment = get(job, "environment");
        let environment = environment.and_then(|node| node.as_str().or_else(|| get(node, "name")?.as_str()));
        // The nearest level wins.
        let mut env: Vec<(String, String)> = Vec::new();
        for level in [step, job, root] {
            for (name, value) in texts(get(level, "env")) {
                if !env.iter().any(|(known, _)| *known == name) {
                    env.push((name, value));
                }
            }
        }
        let environment = environment.map(ToOwned::to_owned);
        Some(Self { uses, environment, env, may_request_identity: may_request_identity(root, job) })
    }

    fn of_call(root: &Node, job: &Node) -> Option<Self> {
        let uses = get(job, "uses")?.as_str()?.to_owned();
        let named = get(job, "with").and_then(|with| get(with, "environment")).and_then(Node::as_str);
        let environment = Some(named.unwrap_or(Self::DEFAULT_ENVIRONMENT).to_owned());
        let may_request_identity = may_request_identity(root, job);
        Some(Self { uses, environment, env: texts(get(job, "secrets")), may_request_identity })
    }

    /// The expression of a variable, if the step sets it.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Whether a job has `id-token: write`; its own permissions replace those of the workflow.
fn may_request_identity(root: &Node, job: &Node) -> bool {
    let Some(permissions) = get(job, "permissions").or_else(|| get(root, "permissions")) else {
        return false;
    };
    permissions.as_str() == Some("write-all")
        || get(permissions, "id-token").is_some_and(|level| level.as_str() == Some("write"))
}

fn texts(node: Option<&Node>) -> Vec<(String, String)> {
    let entries = node.and_then(Node::entries).unwrap_or_default();
    entries
        .iter()
        .map(|(key, value)| (key.text.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let entries = node.entries()?;
    entries.iter().find(|(known, _)| known.text == key).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Vec<String>, Vec<String>)> {
        let inputs = WorkflowInputs::read("w.yml", text).unwrap();
        inputs.map(|inputs| (inputs.declared, inputs.required))
    }

    #[test]
    fn every_form_of_the_trigger_is_recognized() {
        let nothing = Some((vec![], vec![]));
        for text in [
            "on: workflow_dispatch",
            "on: [push, workflow_dispatch]",
            "on:\n  workflow_dispatch:",
            "'on': { workflow_dispatch: { } }",
        ] {
            assert_eq!(read(text), nothing, "{text}");
        }
        for text in ["on: push", "on: [push]", "on: { push: { } }", "name: x", "- 1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn inputs_and_which_of_them_are_required() {
        let text = "\
on:
  workflow_dispatch:
    inputs:
      batch_id: { required: true, type: string }
      shards:
      size: { required: true, default: small }
      note: { required: false }
";
        let (declared, required) = read(text).unwrap();
        assert_eq!(declared, ["batch_id", "shards", "size", "note"]);
        assert_eq!(required, ["batch_id"]);
    }

    #[test]
    fn the_job_that_calls_the_models_is_found() {
        let read = |text: &str| RunnerJob::read("w.yml", text).unwrap();
        let own = read(include_str!("../../workflows/run-evals.yml")).unwrap();
        assert!(own.uses.starts_with("agentv/run-evals@v1"), "{own:?}");
        assert_eq!(own.environment.as_deref(), Some("run-evals"));
        assert_eq!(own.variable("OPENAI_API_KEY"), Some("${{ secrets.OPENAI_API_KEY }}"));
        assert!(!own.may_request_identity);
        for keyless in [
            include_str!("../../workflows/run-evals-keyless.yml"),
            include_str!("../../workflows/run-evals-keyless-caller.yml"),
        ] {
            assert!(read(keyless).unwrap().may_request_identity);
        }
        let caller = read(include_str!("../../workflows/run-evals-caller.yml")).unwrap();
        assert_eq!(caller.uses, "agentv/run-evals/.github/workflows/runner.yml@v1");
        assert_eq!(caller.environment.as_deref(), Some("run-evals"));
        assert_eq!(caller.env.len(), 1);
        let levels = "env: { A: top, B: top }\njobs:\n  x:\n    environment: { name: keys }\n    env: { B: job }\n    \
                      steps:\n      - { uses: a/b@c, with: { mode: run }, env: { C: step } }\n";
        let job = read(levels).unwrap();
        let variables = ["A", "B", "C", "D"].map(|name| job.variable(name));
        assert_eq!(variables, [Some("top"), Some("job"), Some("step"), None]);
        assert_eq!(job.environment.as_deref(), Some("keys"));
        assert_eq!(read("jobs: { x: { steps: [{ run: make }] } }"), None);
    }

    #[test]
    fn invalid_yaml_is_an_error() {
        assert!(WorkflowInputs::read("w.yml", "on: [").is_err());
    }
}
