//! What GitHub and the vendors know.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::channel::Channel;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::identity::Signer;
use crate::options::Options;

pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) signer: Signer,
    pub(crate) barrier: Option<Barrier>,
    known: Mutex<Known>,
}

#[derive(Default)]
pub(crate) struct Known {
    pub(crate) counts: Counts,
    /// The `jti` of every exchanged token.
    pub(crate) used: BTreeSet<String>,
    pub(crate) jwt: Option<String>,
    tokens: HashMap<String, Token>,
    /// Session tokens and secrets of AWS, by access key ID.
    pub(crate) aws: HashMap<String, (String, String)>,
    pub(crate) served: BTreeMap<String, u64>,
    pub(crate) secrets: Vec<String>,
    /// Of calls that were echoed.
    pub(crate) signatures: Vec<String>,
    pub(crate) waited: usize,
    /// Exchanges that have not answered yet.
    pub(crate) exchanging: u64,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) minted: u64,
    pub(crate) exchanges: u64,
    pub(crate) issued: u64,
    pub(crate) calls: u64,
    /// Calls that arrived while an exchange had not answered yet.
    pub(crate) calls_during_exchange: u64,
    /// Requests to where a redirect points.
    pub(crate) redirected: u64,
    pub(crate) ok: u64,
    pub(crate) rejected: u64,
}

struct Token {
    vendor: &'static str,
    expires: Instant,
}

impl World {
    pub(crate) fn new(options: Options) -> Self {
        let barrier = (options.revoke_at > 0).then(|| Barrier::new(options.revoke_at));
        Self { options, signer: Signer::new(), barrier, known: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds since 1970 by the vendors' clock.
    pub(crate) fn now(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
        i64::try_from(now).unwrap_or(i64::MAX) + self.options.clock_ahead
    }

    /// Issues a token of a vendor that lives so many seconds.
    pub(crate) fn issue(&self, vendor: &'static str, prefix: &str, life: u64) -> String {
        let token = format!("{prefix}{}", random());
        let mut known = self.lock();
        let expires = Instant::now() + Duration::from_secs(life);
        known.tokens.insert(token.clone(), Token { vendor, expires });
        known.secrets.push(token.clone());
        known.counts.issued += 1;
        token
    }

    /// Whether a token is valid for a vendor.
    pub(crate) fn accepts(&self, vendor: &str, token: &str) -> bool {
        let known = self.lock();
        known.tokens.get(token).is_some_and(|known| known.vendor == vendor && Instant::now() < known.expires)
    }

    pub(crate) fn revoke_all(&self) {
        self.lock().tokens.clear();
    }

    /// The fault of this request, if it has one.
    pub(crate) async fn fault(&self, fault: Option<&(String, u64)>, number: u64) -> Option<Response> {
        let (what, count) = fault?;
        if number > *count {
            return None;
        }
        if what == "hang" {
            tokio::time::sleep(Duration::from_hours(1)).await;
        }
        if what == "redirect" {
            return Some(
                (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/redirected")]).into_response(),
            );
        }
        match what.as_str() {
            "huge" => return Some(" ".repeat(100_000_000).into_response()),
            "bomb" => return Some(bomb()),
            "trickle" => return Some(trickle()),
            _ => {}
        }
        let status = what.parse().ok().and_then(|status| StatusCode::from_u16(status).ok())?;
        let mut response = error(status, "temporarily_unavailable", "try again later");
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        Some(response)
    }
}

/// A small body that unpacks to 100 MB.
fn bomb() -> Response {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let body = packed.write_all(&vec![b' '; 100_000_000]).and_then(|()| packed.finish());
    ([(header::CONTENT_ENCODING, "gzip")], body.unwrap_or_default()).into_response()
}

/// A body that arrives byte by byte and does not end.
fn trickle() -> Response {
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    tokio::spawn(async move {
        while sender.send_data(Bytes::from_static(b" ")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    Body::new(body).into_response()
}

/// 40 random characters.
pub(crate) fn random() -> String {
    let mut bytes = [0; 20];
    let _ = SystemRandom::new().fill(&mut bytes);
    hex::encode(bytes)
}

/// An error in OAuth's form.
pub(crate) fn error(status: StatusCode, code: &str, description: &str) -> Response {
    json_response(status, &json!({ "error": code, "error_description": description }))
}

pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

pub(crate) fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
