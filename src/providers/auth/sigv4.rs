//! AWS Signature Version 4, with AWS's own crate.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign as sign_request,
};
use aws_sigv4::sign::v4::SigningParams;
use reqwest::Request;
use reqwest::header::{AUTHORIZATION, HOST, HeaderName, HeaderValue};

use crate::model::{AwsKeys, Secret};
use crate::providers::Refusal;
use crate::providers::wire::WireResponse;
use crate::util::redact::Redactor;

/// The service name in Bedrock's signatures.
const SERVICE: &str = "bedrock";

/// Signs a call of Bedrock.
pub(super) fn sign(
    request: &mut Request,
    keys: &AwsKeys,
    region: &str,
    now: SystemTime,
) -> Result<(), Refusal> {
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    sign_as(request, keys, (region, SERVICE), settings, now)
}

/// The signature of one call. Anyone who has it can repeat that call for some minutes.
pub(in crate::providers) struct Signature(Secret);

impl Signature {
    /// The signature of a signed call.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let header = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
        header.rsplit_once("Signature=").map(|(_, signature)| Self(Secret::new(signature)))
    }

    /// Redacts it in a response. A model does not see the headers of its call, so it cannot repeat them in another encoding, but an
    /// error may.
    pub(in crate::providers) fn redact(&self, answer: &mut WireResponse) {
        let is_answered = (200..300).contains(&answer.status);
        let body = &answer.body;
        if is_answered && memchr::memmem::find(body, self.0.expose().as_bytes()).is_none() {
            return;
        }
        let redactor = Redactor::new([&self.0]);
        let text = String::from_utf8_lossy(body).into_owned();
        answer.body = redactor.redact(text).into_bytes();
    }
}

fn sign_as(
    request: &mut Request,
    keys: &AwsKeys,
    (region, service): (&str, &str),
    settings: SigningSettings,
    now: SystemTime,
) -> Result<(), Refusal> {
    let failed = |what: &str| Refusal::bad_request(format!("the call cannot be signed: {what}"));
    let token = keys.session_token.as_ref().map(|token| token.expose().to_owned());
    let identity = Credentials::new(
        keys.access_key_id.expose(),
        keys.secret_access_key.expose(),
        token,
        None,
        "run-evals",
    )
    .into();
    let params = SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(now)
        .settings(settings)
        .build()
        .map_err(|error| failed(&error.to_string()))?
        .into();
    let host = match (request.url().host_str(), request.url().port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    let host = HeaderValue::from_str(&host).map_err(|_| failed("its host is not a header"))?;
    request.headers_mut().insert(HOST, host);
    let instructions = {
        let headers =
            request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
        let signable = SignableRequest::new(
            request.method().as_str(),
            request.url().as_str(),
            headers,
            SignableBody::Bytes(body),
        )
        .map_err(|error| failed(&error.to_string()))?;
        // The error may contain a header.
        let signed =
            sign_request(signable, &params).map_err(|_| failed("a header or the URL is malformed"))?;
        signed.into_parts().0
    };
    for header in instructions.into_parts().0 {
        let mut value = HeaderValue::from_str(header.value())
            .map_err(|_| failed("the credentials contain illegal characters"))?;
        value.set_sensitive(true);
        request.headers_mut().insert(HeaderName::from_static(header.name()), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    fn keys(credentials: &Value) -> AwsKeys {
        let secret = |name: &str| credentials[name].as_str().map(Secret::new);
        AwsKeys {
            access_key_id: secret("access_key_id").unwrap(),
            secret_access_key: secret("secret_access_key").unwrap(),
            session_token: secret("token"),
        }
    }

    /// `METHOD PATH HTTP/1.1`, headers, a blank line, the body.
    fn request(text: &str) -> Request {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let mut words = lines.next().unwrap().split(' ');
        let method = words.next().unwrap().parse().unwrap();
        let path = words.next().unwrap();
        let headers: Vec<(&str, &str)> = lines.map(|line| line.split_once(':').unwrap()).collect();
        let host = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host")).unwrap().1;
        let mut request = Request::new(method, format!("https://{host}{path}").parse().unwrap());
        for (name, value) in headers {
            request.headers_mut().append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        *request.body_mut() = Some(body.to_owned().into());
        request
    }

    /// AWS's published test suite, as far as it covers requests like ours.
    #[test]
    fn signatures_match_the_published_test_vectors() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sigv4");
        let mut vectors = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let dir = entry.unwrap().path();
            let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
            let context: Value = serde_json::from_str(&read("context.json")).unwrap();
            let text = |name: &str| context[name].as_str().unwrap();
            let mut settings = SigningSettings::default();
            if context["sign_body"] == true {
                settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
            }
            let now = SystemTime::from(text("timestamp").parse::<jiff::Timestamp>().unwrap());
            let mut request = request(&read("request.txt"));
            let keys = keys(&context["credentials"]);
            sign_as(&mut request, &keys, (text("region"), text("service")), settings, now).unwrap();
            let header = request.headers()["authorization"].to_str().unwrap();
            let signature = header.rsplit_once("Signature=").unwrap().1;
            assert_eq!(signature, read("header-signature.txt").trim(), "{}", dir.display());
            assert!(request.headers()["authorization"].is_sensitive());
            vectors += 1;
        }
        assert_eq!(vectors, 11);
    }

    #[test]
    fn bedrock_signs_the_body_the_date_and_the_token() {
        let mut request =
            request("POST /model/a%3A0/converse HTTP/1.1\nHost:h\nContent-Type:application/json\n\n{}");
        let context = serde_json::json!({"access_key_id": "A", "secret_access_key": "S", "token": "T"});
        sign(&mut request, &keys(&context), "eu-central-1", SystemTime::UNIX_EPOCH).unwrap();
        let header = request.headers()["authorization"].to_str().unwrap();
        let signed = "AWS4-HMAC-SHA256 Credential=A/19700101/eu-central-1/bedrock/aws4_request, \
            SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token, ";
        assert!(header.starts_with(signed), "{header}");
    }
}
