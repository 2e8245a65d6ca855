//! Lists a server's models with `GET /models`, before anything is paid for.

use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Method, Url};
use serde::Deserialize;

use super::auth::Authorizer;
use super::base_url::{self, Address};
use super::wire::wire;
use super::{Refusal, Retry, http};
use crate::model::{Auth, Endpoint, Exit, Failure, RunnerTarget, printable};
use crate::util::backoff;
use crate::util::redact::Redactor;
use crate::util::truncate::truncate;

/// The timeout of a list.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How much of a server's message is shown.
const LONGEST_WORDS: usize = 300;

/// A model that a server has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ListedModel {
    /// Its name, which a request must match exactly.
    pub id: String,
    /// Whether the name is an alias of another model.
    #[serde(default)]
    is_alias: bool,
    /// The model behind the alias.
    #[serde(default)]
    alias_target: Option<String>,
    /// When the provider shuts it down: a date, or seconds since 1970.
    #[serde(default)]
    shutdown_date: serde_json::Value,
}

impl ListedModel {
    /// The announced date of its shutdown.
    pub fn shutdown_date(&self) -> Option<String> {
        match &self.shutdown_date {
            serde_json::Value::String(date) if !date.is_empty() => Some(date.clone()),
            serde_json::Value::Number(seconds) => {
                let time = jiff::Timestamp::from_second(seconds.as_i64()?).ok()?;
                Some(time.strftime("%Y-%m-%d").to_string())
            }
            _ => None,
        }
    }

    /// The model behind the name, if it is an alias.
    pub fn stands_for(&self) -> Option<&str> {
        self.alias_target
            .as_deref()
            .filter(|target| !target.is_empty() && (self.is_alias || *target != self.id))
    }
}

#[derive(Deserialize)]
struct List {
    data: Vec<ListedModel>,
}

/// The models of a target; `None` if its vendor has no list of requestable names.
pub async fn list_models(target: &RunnerTarget) -> Result<Option<Vec<ListedModel>>, Failure> {
    let chat = target.provider.endpoint().filter(|endpoint| wire(endpoint).is_chat_completions);
    let Some(endpoint) = chat else { return Ok(None) };
    let Some(url) = models_url(&(wire(endpoint).address)(endpoint)?) else { return Ok(None) };
    let client = http::client(&endpoint.ca_pem)?;
    let redactor = Redactor::new(target.secrets());
    let mut attempts = backoff::MODEL_LIST.attempts();
    loop {
        let (message, passing) = match ask(&client, &url, endpoint).await {
            Ok(models) => return Ok(Some(models)),
            Err((message, passing)) => {
                let message = redactor.redact(message);
                (truncate(&printable(message.trim()), LONGEST_WORDS), passing)
            }
        };
        if passing && attempts.again_async().await {
            continue;
        }
        let message = format!(
            "cannot list the models of target `{}` at `{}`: {}",
            target.name,
            base_url::describe(&url),
            message
        );
        let hint = if passing {
            "the server failed: try again later"
        } else if matches!(endpoint.auth, Auth::GithubOidc(_)) {
            "check `base_url` of the target, and the vendor's rule for the identity of this job (docs/keyless.md)"
        } else {
            "check `base_url` and `api_key` of the target; keys of some servers expire"
        };
        return Err(Failure::new(Exit::Failure, message).hint(hint));
    }
}

fn models_url(address: &Address) -> Option<Url> {
    let Address::Fixed(url) = address else { return None };
    let mut url = url.clone();
    let path = url.path().strip_suffix("/chat/completions")?.to_owned();
    url.set_path(&format!("{path}/models"));
    Some(url)
}

/// The list; or the server's message, and whether a retry may help.
async fn ask(client: &Client, url: &Url, endpoint: &Endpoint) -> Result<Vec<ListedModel>, (String, bool)> {
    let mut request = reqwest::Request::new(Method::GET, url.clone());
    *request.timeout_mut() = Some(LONGEST_WAIT);
    let mut headers = HeaderMap::new();
    let failed = |failure: Failure| (failure.to_string(), false);
    headers.extend(http::key_header(wire(endpoint), endpoint).map_err(failed)?);
    *request.headers_mut() = headers;
    let refused = |refusal: Refusal| (refusal.message, refusal.retry != Retry::No);
    let authorizer = Authorizer::new(endpoint).map_err(failed)?;
    let token = authorizer.token().await.map_err(refused)?;
    authorizer.authorize(&mut request, token.as_deref()).map_err(refused)?;
    let answer = http::post(client, request).await.map_err(refused)?;
    let passing = matches!(answer.status, 408 | 425 | 429) || answer.status >= 500;
    if !(200..300).contains(&answer.status) {
        return Err((format!("it returned {}{}", answer.status, words(&answer.body)), passing));
    }
    serde_json::from_slice::<List>(&answer.body)
        .map(|list| list.data)
        .map_err(|_| ("its response is not a list of models (`data`)".to_owned(), false))
}

/// The message of an error in any format, in full, possibly with a secret.
fn words(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let places =
        ["/error/message", "/detail/error/message", "/detail/message", "/detail", "/error", "/message"];
    let said = places.iter().find_map(|place| value.pointer(place)?.as_str());
    said.map(|said| format!(": {said}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Api;
    use crate::providers::openai::COMPATIBLE;
    use crate::providers::tests::{endpoint, target};

    #[test]
    fn model_lists_are_read() {
        let list = br#"{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"},
            {"id":"fast","is_alias":true,"alias_target":"m"},{"id":"odd","is_alias":false,"alias_target":null}]}"#;
        let models = serde_json::from_slice::<List>(list).unwrap().data;
        let stands_for: Vec<_> = models.iter().map(|model| (model.id.as_str(), model.stands_for())).collect();
        assert_eq!(stands_for, [("m", None), ("fast", Some("m")), ("odd", None)]);
    }

    #[tokio::test]
    async fn a_key_is_redacted_where_the_limit_would_cut_it() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let key = "sk-fake-0123456789abcdefSECRET";
        let body =
            serde_json::json!({"detail": format!("{}{key}", "n".repeat(LONGEST_WORDS - 10))}).to_string();
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                seen.push(socket.read_u8().await.unwrap());
            }
            let head = format!("HTTP/1.1 403 No\r\ncontent-length: {}\r\n\r\n", body.len());
            socket.write_all((head + &body).as_bytes()).await.unwrap();
        });
        let endpoint = Endpoint {
            auth: Auth::Key(crate::model::Secret::new(key)),
            ..endpoint(Api::OpenAiCompatible, &base)
        };
        let target = target(crate::model::Provider::Api(endpoint));
        let message = list_models(&target).await.unwrap_err().to_string();
        server.await.unwrap();
        assert!(message.contains("it returned 403: nnn") && !message.contains(&key[..4]), "{message}");
    }

    #[test]
    fn the_list_url_is_next_to_the_completions_url() {
        let url = |base: &str| {
            let address = (COMPATIBLE.address)(&endpoint(Api::OpenAiCompatible, base)).unwrap();
            models_url(&address).unwrap().to_string()
        };
        assert_eq!(url("https://m.example"), "https://m.example/v1/models");
        assert_eq!(url("https://m.example/api/v1/"), "https://m.example/api/v1/models");
        assert_eq!(url("https://m.example/v1/chat/completions"), "https://m.example/v1/models");
    }

    #[test]
    fn errors_are_read_in_many_formats() {
        for (body, expected) in [
            (r#"{"error":{"message":"no\nkey"}}"#, ": no\nkey"),
            (r#"{"detail":"API key has expired"}"#, ": API key has expired"),
            (r#"{"detail":{"error":{"message":"busy"}}}"#, ": busy"),
            ("<html>", ""),
        ] {
            assert_eq!(words(body.as_bytes()), expected);
        }
    }
}
