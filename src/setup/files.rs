//! The files of a runner repository.

use std::fmt::Write as _;

use super::models::Model;
use super::preflight::Keyless;
use crate::config::keyless::{self, PLACEHOLDER};
use crate::model::{Backend, ProviderKind};

/// The path of the workflow.
pub(super) const WORKFLOW_PATH: &str = ".github/workflows/run-evals.yml";
/// The environment in the workflow.
pub(super) const ENVIRONMENT: &str = "run-evals";

const TEMPLATE: &str = include_str!("../../workflows/run-evals.yml");
/// The key variable of a server without a conventional one, as in the reusable workflow.
const OTHER_KEY: &str = "LLM_API_KEY";
/// Limits every response of the example models; a budget needs a limit.
const MAX_TOKENS: u32 = 4096;
const MAX_REQUESTS: u32 = 1000;
const MAX_BUDGET_USD: u32 = 5;

/// The secret that holds the API key of a provider; the mock needs none.
pub(super) fn key_variable(provider: &ProviderKind) -> Option<&'static str> {
    (provider.backend != Backend::Mock).then(|| provider.key_variable.unwrap_or(OTHER_KEY))
}

/// The comment in place of variables in the keyless workflow.
const NO_VARIABLES: &str = "        # No `env`: there is no key.\n";

/// The keyless workflow; other targets of the repository may still need variables.
pub(super) fn keyless_workflow(variables: &[(String, String)]) -> String {
    if variables.is_empty() {
        return keyless::WORKFLOW.to_owned();
    }
    let mut env = "        env:\n".to_owned();
    for (name, value) in variables {
        let _ = writeln!(env, "          {name}: {value}");
    }
    keyless::WORKFLOW.replace(NO_VARIABLES, &env)
}

/// The workflow with a line for each of these variables.
pub(super) fn workflow(variables: &[(String, String)]) -> String {
    let mut text = String::new();
    let mut in_env = false;
    for line in TEMPLATE.lines() {
        let is_entry = in_env && line.starts_with("          ");
        in_env = is_entry || line.trim_start().starts_with("env: # EDIT");
        if is_entry && !variables.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{line}");
        if in_env && !is_entry {
            for (name, value) in variables {
                let _ = writeln!(text, "          {name}: {value}");
            }
        }
    }
    text
}

/// The line that passes a secret to the runner.
pub(super) fn secret_expression(name: &str) -> String {
    format!("${{{{ secrets.{name} }}}}")
}

/// The targets of a new runner repository.
pub(super) fn targets(provider: &ProviderKind, model: &Model, keyless: Option<&Keyless>) -> String {
    let comment = if keyless.is_some() {
        "No key is stored: `auth` has public ids."
    } else {
        "Keys are references to secrets; the workflow passes them on."
    };
    let mut text = format!(
        "# The models that batches can use. {comment}\ntargets:\n  - name: {}\n    provider: {}\n",
        model.target, provider.name
    );
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "    {key}: {value}");
    };
    if let Some(name) = &model.model {
        line("model", &quoted(name));
    }
    if let Some(base_url) = &model.base_url {
        line("base_url", &quoted(base_url));
    }
    if let Some(keyless) = keyless {
        for (key, value) in keyless.settings() {
            line(key, &quoted(value));
        }
        line("auth", "\n      github_oidc:");
        for (key, value) in keyless.ids() {
            line(&format!("    {key}"), &quoted(value));
        }
        line("max_tokens", &format!("{MAX_TOKENS} # of each response"));
    } else if let Some(variable) = key_variable(provider) {
        line("api_key", &format!("${{{{ {variable} }}}}"));
        line("max_tokens", &format!("{MAX_TOKENS} # of each response"));
    }
    let note = model.note.map(|note| format!("; {note}")).unwrap_or_default();
    let price = &model.price;
    line(
        "price",
        &format!(
            "{{ input_per_mtok: {:.2}, output_per_mtok: {:.2} }} # US dollars; check them{note}",
            price.input_per_mtok, price.output_per_mtok
        ),
    );
    text.replace("auth: \n", "auth:\n")
}

/// A targets file with these ids in place of the placeholders; `None` if there are no placeholders.
pub(super) fn fill(text: &str, keyless: &Keyless) -> Option<String> {
    let mut filled = String::with_capacity(text.len());
    let provider = format!("provider: {}", keyless.vendor.provider());
    let mut rest = text.split_inclusive('\n').peekable();
    let mut entry: Vec<&str> = Vec::new();
    while let Some(line) = rest.next() {
        entry.push(line);
        if rest.peek().is_some_and(|next| !next.trim_start().starts_with("- ")) {
            continue;
        }
        let is_own = entry.iter().any(|line| line.trim().trim_start_matches("- ") == provider);
        for line in entry.drain(..) {
            let value = line.trim().split_once(':').and_then(|(key, _)| keyless.given(key));
            match value.filter(|_| is_own && line.contains(PLACEHOLDER)) {
                Some(value) => {
                    let (head, _) = line.split_once(':').unwrap_or_default();
                    let _ = writeln!(filled, "{head}: {}", quoted(value));
                }
                None => filled.push_str(line),
            }
        }
    }
    (filled != text).then_some(filled)
}

/// The policy of a new runner repository.
pub(super) fn policy(senders: &[String], is_keyless: bool) -> String {
    let keyless = if is_keyless { "keyless: required # no target with a stored key\n" } else { "" };
    let senders: Vec<String> = senders.iter().map(|login| quoted(login)).collect();
    let senders = senders.join(", ");
    format!(
        "# What batches may do, whatever they ask for. Limits are per workflow run.\nallowed_senders: [{senders}]\nmax_requests: \
         {MAX_REQUESTS}\nmax_budget_usd: {MAX_BUDGET_USD}\n{keyless}"
    )
}

/// The dispatcher's target, as an entry of a list with this indentation.
pub(super) fn dispatcher_target(name: &str, repo: &str, runner_target: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    format!(
        "{pad}- name: {}\n{pad}  provider: github-actions\n{pad}  repo: {repo}\n{pad}  workflow: run-evals.yml\n{pad}  target: {} # one \
         of the runner's own targets\n",
        quoted(name),
        quoted(runner_target)
    )
}

/// A YAML scalar, quoted where it could be read as something else.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain);
    let is_reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if is_word && !is_reserved { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Policy, RunnerJob, TargetsFile};
    use crate::model::PROVIDERS;
    use crate::setup::models::{ModelChoice, example, is_supported};

    #[test]
    fn the_files_of_every_provider_can_be_read() {
        for provider in PROVIDERS.iter().filter(|kind| is_supported(kind)) {
            let (name, url) = ("odd: model".to_owned(), "https://llm.example/v1".to_owned());
            let choice = ModelChoice { model: Some(name), base_url: Some(url), price: Some((1.0, 2.0)) };
            let model = example(provider, &choice).unwrap();
            let text = targets(provider, &model, None);
            let (file, warnings) =
                TargetsFile::parse(text.clone().into_bytes(), Path::new("t"), Path::new(""))
                    .unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert!(warnings.is_empty(), "{warnings:?}");
            assert_eq!(file.names().collect::<Vec<_>>(), [model.target.as_str()]);
        }
        Policy::parse(
            Path::new("p"),
            policy(&["mona".to_owned(), "our-evals[bot]".to_owned(), "123".to_owned()], true).into_bytes(),
        )
        .unwrap();
    }

    #[test]
    fn the_workflow_passes_the_variables_and_nothing_else_changes() {
        assert_eq!(workflow(&[]), TEMPLATE);
        let name = "LLM_API_KEY".to_owned();
        let text = workflow(&[(name.clone(), secret_expression(&name))]);
        let job = RunnerJob::read("w", &text).unwrap().unwrap();
        assert_eq!(job.env, [(name, "${{ secrets.LLM_API_KEY }}".to_owned())]);
        assert_eq!(text.lines().count(), TEMPLATE.lines().count() - 2);
        assert_eq!(job.environment.as_deref(), Some(ENVIRONMENT));
    }

    #[test]
    fn the_openai_targets_file() {
        let provider = ProviderKind::find("openai").unwrap();
        insta::assert_snapshot!(targets(provider, &example(provider, &ModelChoice::default()).unwrap(), None), @r"
        # The models that batches can use. Keys are references to secrets; the workflow passes them on.
        targets:
          - name: gpt
            provider: openai
            model: gpt-6-luna
            api_key: ${{ OPENAI_API_KEY }}
            max_tokens: 4096 # of each response
            price: { input_per_mtok: 0.10, output_per_mtok: 0.50 } # US dollars; check them
        ");
    }
}
