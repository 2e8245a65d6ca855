//! Why a vendor refused the identity of a job, and what to change at the vendor.

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::job_token::JobToken;
use super::retry;
use crate::model::{Api, ErrorKind, Exchange, Federation};
use crate::providers::{Refusal, Retry};

/// A vendor's error message for a failed exchange.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Complaint {
    code: String,
    description: String,
}

impl Complaint {
    /// Reads OAuth's form, the vendors' own errors, and AWS's XML.
    pub(super) fn read(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let Ok(json) = serde_json::from_str::<Value>(&text) else {
            let field = |name| xml_text(&text, name).unwrap_or_default();
            return Self { code: field("Code"), description: field("Message") };
        };
        let error = &json["error"];
        let first =
            |values: &[&Value]| values.iter().find_map(|value| value.as_str()).unwrap_or_default().to_owned();
        Self {
            code: first(&[error, &error["code"], &error["type"], &error["status"]]),
            description: first(&[&json["error_description"], &error["message"], &json["message"]]),
        }
    }

    /// Whether the code, or a word of the description, is one of these.
    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.code == *word || self.description.contains(word))
    }
}

impl Complaint {
    /// Whether the token of the job had expired when it arrived. Another one may be in time.
    fn is_stale(&self) -> bool {
        let said = self.description.to_ascii_lowercase();
        self.has(&["ExpiredTokenException", "AADSTS700024"])
            || said.contains("expired")
            || said.contains("stale")
    }
}

/// The text of an XML element, without its markup.
pub(super) fn xml_text(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let text = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (entity, sign)| text.replace(entity, sign));
    Some(text.trim().to_owned())
}

/// The vendor's name in messages.
pub(super) fn vendor(exchange: &Exchange) -> &'static str {
    match exchange {
        Exchange::OpenAi { .. } => "OpenAI",
        Exchange::Anthropic { .. } => "Anthropic",
        Exchange::Azure { .. } => "Microsoft Entra",
        Exchange::Aws { .. } => "AWS",
        Exchange::Gcp { .. } => "Google Cloud",
    }
}

/// The meaning of a failed exchange. Only an error that needs a change at the vendor is final.
pub(super) fn of(
    federation: &Federation,
    job: &JobToken,
    status: u16,
    headers: &HeaderMap,
    complaint: &Complaint,
) -> Refusal {
    let Federation { exchange, audience, .. } = federation;
    let vendor = vendor(exchange);
    let said = [complaint.code.as_str(), complaint.description.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|part| !part.is_empty()).collect();
    let said = format!("{status} {}", said.join(": "));
    let said = said.trim_end();
    let retry = match retry(status, headers) {
        Retry::No if complaint.is_stale() || complaint.has(&["IDPCommunicationError"]) => Retry::After(None),
        retry => retry,
    };
    let refusal = if let Retry::After(_) = retry {
        let why = if complaint.is_stale() {
            "the identity token of this job had expired when it arrived, which slow connections and wrong clocks cause; "
        } else {
            ""
        };
        let message = format!("the token exchange with {vendor} failed: {why}it returned {said}");
        Refusal::new(ErrorKind::Server, retry, message)
    } else {
        let claims = match (exchange, &job.claims.job_workflow_ref) {
            // A federated credential of Azure has no other claim than the subject.
            (Exchange::Azure { .. }, _) | (_, None) => String::new(),
            (_, Some(workflow)) => format!(", job_workflow_ref `{workflow}`"),
        };
        let message = format!(
            "{vendor} refused the identity of this job, subject `{}`, audience `{audience}`{claims}: {}; it returned {said}",
            job.claims.sub,
            advice(exchange, complaint),
        );
        Refusal::new(ErrorKind::Auth, Retry::No, message)
    };
    Refusal { status: Some(status), may_be_billed: false, ..refusal }
}

/// What to change at the vendor.
fn advice(exchange: &Exchange, complaint: &Complaint) -> String {
    match exchange {
        Exchange::OpenAi { identity_provider_id, service_account_id } => format!(
            "let the identity provider `{identity_provider_id}` accept this audience, and map these claims to the service account \
             `{service_account_id}`"
        ),
        Exchange::Anthropic { .. } if complaint.has(&["jti_reused"]) => {
            "the assertion was used before, and each is valid once; run the job again".to_owned()
        }
        Exchange::Anthropic { federation_rule_id, .. } => {
            format!("let the federation rule `{federation_rule_id}` match these claims")
        }
        Exchange::Azure { scope, .. } if complaint.has(&["AADSTS70011"]) => {
            format!("correct `scope`, which is `{scope}`")
        }
        Exchange::Azure { client_id, .. } if complaint.has(&["AADSTS700016", "AADSTS90002"]) => {
            format!("correct `tenant_id` or `client_id`, which is `{client_id}`")
        }
        Exchange::Azure { client_id, .. } => {
            format!(
                "add a federated credential with exactly this subject and audience to the application `{client_id}`"
            )
        }
        Exchange::Aws { .. } if complaint.has(&["InvalidIdentityToken"]) => {
            "add GitHub's OIDC provider with this audience to the account".to_owned()
        }
        Exchange::Aws { duration_seconds, .. } if complaint.has(&["DurationSeconds"]) => format!(
            "lower `session_duration`, which is {duration_seconds} s, or raise the maximum session duration of the role"
        ),
        Exchange::Aws { role_arn, .. } => {
            format!(
                "let the trust policy of `{role_arn}` allow `sts:AssumeRoleWithWebIdentity` for these claims"
            )
        }
        Exchange::Gcp { impersonation_url: Some(_), .. } if complaint.has(&["PERMISSION_DENIED"]) => {
            "grant this subject `roles/iam.workloadIdentityUser` on the service account".to_owned()
        }
        Exchange::Gcp { .. } if complaint.has(&["127 bytes"]) => {
            "map `google.subject` to less than the subject, as docs/keyless.md says".to_owned()
        }
        Exchange::Gcp { provider, .. } if complaint.has(&["invalid_target"]) => {
            format!("correct `workload_identity_provider`, which is `{provider}`")
        }
        Exchange::Gcp { .. } if complaint.has(&["audience"]) => {
            "let the workload identity provider allow this audience, or remove `audience` from the target"
                .to_owned()
        }
        Exchange::Gcp { .. } => {
            "let the attribute condition of the workload identity provider accept these claims".to_owned()
        }
    }
}

/// What is missing at the vendor if it accepts the identity but refuses the call.
pub(super) fn missing_role(api: Api) -> &'static str {
    match api {
        Api::Azure => "the identity needs the role `Cognitive Services OpenAI User` on the resource",
        Api::Bedrock => "the role needs the permission `bedrock:InvokeModel` for this model",
        Api::Vertex => "the identity needs the role `roles/aiplatform.user` in the project",
        _ => "the service account needs the permission to use this model",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_read_in_every_form() {
        let read = |body: &str| {
            let Complaint { code, description } = Complaint::read(body.as_bytes());
            format!("{code} | {description}")
        };
        insta::assert_snapshot!(
            [
                r#"{"error":"invalid_grant","error_description":"AADSTS700213: no match"}"#,
                r#"{"type":"error","error":{"type":"authentication_error","message":"jti_reused"}}"#,
                r#"{"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}"#,
                "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>Not &quot;you&quot;</Message></Error></ErrorResponse>",
                "<html>",
            ].map(read).join("\n"),
            @r#"
        invalid_grant | AADSTS700213: no match
        authentication_error | jti_reused
        PERMISSION_DENIED | denied
        AccessDenied | Not "you"
         | 
        "#
        );
    }
}
