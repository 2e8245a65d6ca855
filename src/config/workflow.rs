//! What a workflow file says of its `workflow_dispatch` inputs: enough to tell before a dispatch that it would be refused.

use super::{Document, Invalid, Node, NodeValue};

/// The inputs of a workflow that can be dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowInputs {
    /// All names, in the file's order.
    pub declared: Vec<String>,
    /// Those that a dispatch must give.
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
    fn invalid_yaml_is_an_error() {
        assert!(WorkflowInputs::read("w.yml", "on: [").is_err());
    }
}
