//! A plain HTTP client that follows no redirects.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

/// A client with a token, or without if it is empty.
pub(super) struct Client {
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    base: String,
    token: String,
}

/// A response, read completely.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) text: String,
    /// Null if the text is not JSON.
    pub(super) json: Value,
}

impl Client {
    pub(super) fn new(base: &str, token: &str) -> Self {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .user_agent("test")
            .timeout(Duration::from_secs(20))
            .no_proxy()
            .build()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, http, base: base.to_owned(), token: token.to_owned() }
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Vec::new()).unwrap()
    }

    pub(super) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::GET, path, headers, Vec::new()).unwrap()
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string().into_bytes())
            .unwrap()
    }

    pub(super) fn try_post(&self, path: &str, body: &Value) -> Result<Answer, reqwest::Error> {
        self.send(Method::POST, path, &[("content-type", "application/json")], body.to_string().into_bytes())
    }

    /// Sends a request to a path or a full URL.
    pub(super) fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, reqwest::Error> {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.base) };
        let mut request = self.http.request(method, url);
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.body(body);
        }
        self.runtime.block_on(async {
            let response = request.send().await?;
            let status = response.status().as_u16();
            let text_of =
                |value: &reqwest::header::HeaderValue| value.to_str().unwrap_or_default().to_owned();
            let headers =
                response.headers().iter().map(|(name, value)| (name.to_string(), text_of(value))).collect();
            let bytes = response.bytes().await?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let json = serde_json::from_str(&text).unwrap_or_default();
            Ok(Answer { status, headers, text, json })
        })
    }
}

impl Answer {
    /// GitHub's message.
    pub(super) fn message(&self) -> String {
        format!("{} {}", self.status, self.json["message"].as_str().unwrap_or(&self.text))
    }
}
