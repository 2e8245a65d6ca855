//! Verifies AWS signatures, written from AWS's description and without the program's signer.

use std::collections::BTreeMap;

use aws_lc_rs::{digest, hmac};
use axum::http::{HeaderMap, HeaderName};

use crate::state::header_text;

/// The parts of a request that a signature covers.
pub(crate) struct Signed<'r> {
    pub(crate) path: &'r str,
    pub(crate) headers: &'r HeaderMap,
    pub(crate) body: &'r [u8],
}

/// Who signed a request.
pub(crate) struct Signature<'r> {
    pub(crate) access_key_id: &'r str,
    date: &'r str,
    region: &'r str,
    service: &'r str,
    names: Vec<&'r str>,
    signature: &'r str,
}

impl<'r> Signature<'r> {
    pub(crate) fn read(headers: &'r HeaderMap) -> Option<Self> {
        let text = header_text(headers, "authorization").strip_prefix("AWS4-HMAC-SHA256 ")?;
        let parts: BTreeMap<&str, &str> = text.split(", ").filter_map(|part| part.split_once('=')).collect();
        let scope: Vec<&str> = parts.get("Credential")?.split('/').collect();
        let [access_key_id, date, region, service, "aws4_request"] = scope[..] else { return None };
        Some(Self {
            access_key_id,
            date,
            region,
            service,
            names: parts.get("SignedHeaders")?.split(';').collect(),
            signature: parts.get("Signature")?,
        })
    }

    /// Whether it is for Bedrock in this region.
    pub(crate) fn is_for(&self, region: &str) -> bool {
        self.region == region && self.service == "bedrock"
    }

    /// Whether the signature is that of this secret, and covers what it must: each of AWS's headers among others.
    pub(crate) fn is_valid(&self, request: &Signed<'_>, secret: &str, has_token: bool) -> bool {
        let mut needed = vec!["host", "x-amz-content-sha256", "x-amz-date"];
        needed.extend(has_token.then_some("x-amz-security-token"));
        needed
            .extend(request.headers.keys().map(HeaderName::as_str).filter(|name| name.starts_with("x-amz-")));
        let hash = sha256(request.body);
        let is_complete = needed.iter().all(|name| self.names.contains(name))
            && self.names.is_sorted()
            && header_text(request.headers, "x-amz-content-sha256") == hash;
        // The path as it was sent is encoded once more.
        let path: Vec<String> = request.path.split('/').map(encode).collect();
        let headers: Vec<String> = self
            .names
            .iter()
            .map(|name| format!("{name}:{}\n", header_text(request.headers, name).trim()))
            .collect();
        let (path, headers, names) = (path.join("/"), headers.concat(), self.names.join(";"));
        let canonical = format!("POST\n{path}\n\n{headers}\n{names}\n{hash}");
        let scope = format!("{}/{}/{}/aws4_request", self.date, self.region, self.service);
        let moment = header_text(request.headers, "x-amz-date");
        let to_sign = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let steps = [self.date, self.region, self.service, "aws4_request", &to_sign];
        let signature = steps.iter().fold(format!("AWS4{secret}").into_bytes(), |key, text| sign(&key, text));
        is_complete && moment.starts_with(self.date) && hex::encode(signature) == self.signature
    }
}

fn sign(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes))
}

fn encode(segment: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    segment
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
