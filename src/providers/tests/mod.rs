//! The wires against the documented formats of responses, and the sender against local servers.

mod encode;
mod fixtures;
mod http;
mod mock;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Caller;
use super::wire::{Wire, wire};
use crate::model::{
    Api, Auth, Endpoint, Limits, Params, Provider, Request, RetryPolicy, RunnerTarget, Secret,
};

const KEY: &str = "sk-fake-0123456789";

pub(super) fn endpoint(api: Api, base_url: &str) -> Endpoint {
    Endpoint {
        api,
        base_url: base_url.to_owned(),
        api_version: None,
        auth: Auth::Key(Secret::new(KEY)),
        region: None,
        project: None,
        ca_pem: Vec::new(),
    }
}

/// The wire of an API version.
fn wire_of(api: Api, version: Option<&str>) -> &'static Wire {
    wire(&Endpoint { api_version: version.map(str::to_owned), ..endpoint(api, "https://host") })
}

pub(super) fn target(provider: Provider) -> RunnerTarget {
    RunnerTarget {
        name: "gpt".to_owned(),
        provider,
        params: Params { model: Some("m-1".to_owned()), ..Params::default() },
        limits: Limits {
            max_concurrency: NonZeroU32::MIN,
            requests_per_minute: None,
            tokens_per_minute: None,
        },
        retry: RetryPolicy::default(),
        timeout: Duration::from_secs(30),
        price: None,
        dedupe: false,
        keep_raw: false,
        budget_usd: None,
        allow_models: Vec::new(),
    }
}

fn caller(provider: Provider) -> Caller {
    Caller::new(Arc::new(target(provider))).unwrap()
}

fn request(json: Value) -> Request {
    serde_json::from_value(json).unwrap()
}
