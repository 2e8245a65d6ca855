//! Identifies resolved targets by provider, model, address and parameters. Keys, prices and limits may differ.

use serde_json::{Value, json};

use crate::model::{Digest, MockSettings, Provider, RemoteTarget, RunnerTarget, Target};

/// The digest of a target's identity.
pub(super) fn identity(target: &Target) -> Digest {
    let value = match target {
        Target::Runner(target) => runner(target),
        Target::Remote(target) => remote(target),
    };
    Digest::of(value.to_string().as_bytes())
}

/// The same for a target of a runner repository.
pub(super) fn runner_identity(target: &RunnerTarget) -> Digest {
    Digest::of(runner(target).to_string().as_bytes())
}

fn runner(target: &RunnerTarget) -> Value {
    let provider = match &target.provider {
        Provider::Api(endpoint) => json!({
            "api": format!("{:?}", endpoint.api),
            "base_url": endpoint.base_url,
            "api_version": endpoint.api_version,
        }),
        Provider::Mock(MockSettings { reply, error_rate, rate_limit_rate, seed, .. }) => {
            json!({ "mock": format!("{reply:?}"), "rates": [error_rate, rate_limit_rate], "seed": seed })
        }
    };
    json!({ "name": target.name, "provider": provider, "params": target.params })
}

fn remote(target: &RemoteTarget) -> Value {
    json!({
        "name": target.name,
        "repo": target.repo.to_lowercase(),
        "workflow": target.workflow,
        "ref": target.git_ref,
        "target": target.target,
        "results": target.results,
    })
}
