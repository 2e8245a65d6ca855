//! The client of the service: no retries, no redirects, and the token only over TLS or to this machine.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Client, Method, Url};
use serde::{Deserialize, Serialize};

use super::address::parse_url;
use super::hints::{UNREACHABLE, hint};
use super::outcome::{CurrentJob, RequestOutcome};
use crate::model::{Exit, Failure, Replicates, Secret, ShaPrefix, SkillName, printable};
use crate::util::error::innermost;
use crate::util::redact::Redactor;
use crate::util::truncate::truncate;

const USER_AGENT: &str = concat!("run-evals/", env!("CARGO_PKG_VERSION"));
const CONNECT: Duration = Duration::from_secs(10);
/// The largest response to a request for an evaluation.
const LARGEST_ANSWER: usize = 64 << 10;
/// The largest list of jobs.
const LARGEST_LIST: usize = 16 << 20;
/// How much of the service's messages is repeated.
const LONGEST_TEXT: usize = 500;

/// How to reach the service.
#[derive(Debug)]
pub struct ServiceOptions<'a> {
    /// Its URL: `https://…`, or `http://…` on this machine.
    pub url: &'a str,
    /// The authentication token.
    pub token: Secret,
    /// The certificates to trust instead of the system's, in PEM format.
    pub ca: Option<Vec<u8>>,
    /// The timeout of a whole response.
    pub timeout: Duration,
}

/// A client of the service.
#[derive(Debug, Clone)]
pub struct Service {
    http: Client,
    base: Url,
    authorization: HeaderValue,
    redactor: Redactor,
}

/// A request for an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceRequest {
    /// The skill.
    #[serde(rename = "skill_name")]
    pub skill: SkillName,
    /// How often each case is run.
    pub replicates: Replicates,
    /// The commit; by default the newest of the default branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_sha: Option<ShaPrefix>,
}

/// A service job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServiceJob {
    /// Its id.
    pub job_id: String,
    /// The skill.
    pub skill: String,
    /// The requested commit.
    #[serde(default)]
    pub git_sha: Option<String>,
    /// The evaluated commit.
    #[serde(default)]
    pub prompt_commit: Option<String>,
    /// `queued`, `running`, `completed`, `failed`, `interrupted` or another word.
    pub state: String,
    /// When it ended.
    #[serde(default)]
    pub finished_at: Option<Timestamp>,
    /// Its pull request.
    #[serde(default)]
    pub pull_request: Option<String>,
}

impl ServiceJob {
    /// Whether it has not ended.
    pub fn is_open(&self) -> bool {
        matches!(self.state.as_str(), "queued" | "running")
    }

    /// Whether it evaluates this skill at this commit.
    pub fn is_of(&self, skill: &SkillName, commit: &str) -> bool {
        let asked = self.git_sha.as_deref().is_some_and(|sha| sha.len() >= 7 && commit.starts_with(sha));
        self.skill == skill.as_str() && self.prompt_commit.as_deref().map_or(asked, |sha| sha == commit)
    }
}

impl Service {
    /// A client; sends nothing yet.
    pub fn new(options: &ServiceOptions<'_>) -> Result<Self, Failure> {
        let base = parse_url(options.url)?;
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            // A redirect must not get the token, nor repeat the request.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(options.timeout)
            .http1_only();
        if base.scheme() == "http" {
            // Without a proxy for this machine.
            builder = builder.no_proxy();
        }
        if let Some(pem) = &options.ca {
            let certificates = Certificate::from_pem_bundle(pem).ok().filter(|all| !all.is_empty());
            let certificates = certificates.ok_or_else(|| {
                Failure::config("the certificates of the service's CA are not in PEM format")
                    .hint("they begin with `-----BEGIN CERTIFICATE-----`; set them with `--ca-file` or `RUN_EVALS_SERVE_CA`")
            })?;
            builder = builder.tls_certs_only(certificates);
        }
        let http = builder.build().map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot set up the HTTP client: {}", innermost(&error)))
        })?;
        let token = options.token.expose();
        let legal = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        let authorization = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| legal);
        let mut authorization = authorization.ok_or_else(|| {
            Failure::config("the service's token contains an illegal character")
                .hint("store it again, without quotes and without text around it")
        })?;
        authorization.set_sensitive(true);
        Ok(Self { http, base, authorization, redactor: Redactor::new([&options.token]) })
    }

    /// Requests an evaluation, once.
    pub async fn evaluate(&self, order: &ServiceRequest) -> RequestOutcome {
        let body = serde_json::to_vec(order).unwrap_or_default();
        match self.ask(Method::POST, "evaluate", Some(body), LARGEST_ANSWER).await {
            Err(answer) => answer,
            Ok((202, body)) => {
                #[derive(Deserialize)]
                struct AcceptedJob {
                    job_id: String,
                }
                if let Ok(AcceptedJob { job_id }) = serde_json::from_slice::<AcceptedJob>(&body) {
                    RequestOutcome::Fired { job_id: self.shown(&job_id) }
                } else {
                    let reason = "the response names no job".to_owned();
                    RequestOutcome::Refused { status: 202, reason, hint: None }
                }
            }
            Ok((409, body)) => {
                #[derive(Deserialize)]
                struct Busy {
                    #[serde(default)]
                    current_job: Option<CurrentJob>,
                }
                let current = serde_json::from_slice::<Busy>(&body).ok().and_then(|busy| busy.current_job);
                RequestOutcome::Busy(current.map(|job| CurrentJob {
                    skill: self.shown(&job.skill),
                    started_at: job.started_at.map(|time| self.shown(&time)),
                }))
            }
            Ok((status, body)) => {
                let (reason, hint) = self.reason(&body);
                RequestOutcome::Refused { status, reason, hint }
            }
        }
    }

    /// All jobs of the service, newest first.
    pub async fn jobs(&self) -> Result<Vec<ServiceJob>, Failure> {
        #[derive(Deserialize)]
        struct List {
            jobs: Vec<ServiceJob>,
        }
        let failed = |why: String| {
            Failure::new(
                Exit::Failure,
                format!("cannot list the jobs of the service at `{}`: {why}", self.place()),
            )
        };
        match self.ask(Method::GET, "jobs", None, LARGEST_LIST).await {
            Ok((200, body)) => match serde_json::from_slice::<List>(&body) {
                Ok(list) => Ok(list.jobs.into_iter().map(|job| self.inert(job)).collect()),
                Err(error) => Err(failed(format!("invalid response: {}", printable(&error.to_string())))),
            },
            Ok((status, body)) => {
                let (reason, own_hint) = self.reason(&body);
                let failure = failed(format!("it returned {status}: {reason}"));
                Err(match own_hint.or_else(|| hint(status).map(ToOwned::to_owned)) {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                })
            }
            Err(RequestOutcome::Silence { cause, .. }) => Err(failed(cause).hint(UNREACHABLE)),
            Err(_) => Err(failed("no answer".to_owned())),
        }
    }

    /// The job with printable names.
    fn inert(&self, job: ServiceJob) -> ServiceJob {
        ServiceJob { job_id: self.shown(&job.job_id), skill: self.shown(&job.skill), ..job }
    }

    /// Host and port, for messages.
    pub fn place(&self) -> String {
        let name = self.base.host_str().unwrap_or_default();
        self.base.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
    }

    async fn ask(
        &self,
        method: Method,
        route: &str,
        body: Option<Vec<u8>>,
        most: usize,
    ) -> Result<(u16, Vec<u8>), RequestOutcome> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(route);
        }
        let mut request = self
            .http
            .request(method, url)
            .header(AUTHORIZATION, self.authorization.clone())
            .header(ACCEPT, "application/json");
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let nothing = |error: reqwest::Error| {
            let error = error.without_url();
            let sent = !(error.is_connect() || error.is_builder());
            let cause = match (error.is_timeout(), sent) {
                (true, true) => "no response in time".to_owned(),
                (true, false) => "no connection in time".to_owned(),
                _ => printable(&innermost(&error)),
            };
            RequestOutcome::Silence { cause, sent }
        };
        let mut answer = request.send().await.map_err(nothing)?;
        let status = answer.status().as_u16();
        let mut whole = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(nothing)? {
            if whole.len() + chunk.len() > most {
                let cause = format!("the response is larger than {} KiB", most >> 10);
                return Err(RequestOutcome::Silence { cause, sent: true });
            }
            whole.extend_from_slice(&chunk);
        }
        Ok((status, whole))
    }

    /// Why the service refused, and its hint.
    fn reason(&self, body: &[u8]) -> (String, Option<String>) {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        match serde_json::from_slice::<Refusal>(body) {
            Ok(Refusal { error }) => match error.split_once("\nhint: ") {
                Some((reason, hint)) => (self.shown(reason), Some(self.shown(hint))),
                None => (self.shown(&error), None),
            },
            Err(_) if body.is_empty() => ("no reason given".to_owned(), None),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // A proxy's error page does not help.
                let is_page = text.trim_start().starts_with('<');
                let reason =
                    if is_page { "a web page instead of a reason".to_owned() } else { self.shown(&text) };
                (reason, None)
            }
        }
    }

    /// The service's text, shortened and redacted.
    fn shown(&self, text: &str) -> String {
        let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let text = self.redactor.redact(line);
        printable(&truncate(&text, LONGEST_TEXT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_identified_by_skill_and_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let skill: SkillName = "rfp".parse().unwrap();
        let job = |skill: &str, git_sha: Option<&str>, prompt_commit: Option<&str>| ServiceJob {
            job_id: "job-1".to_owned(),
            skill: skill.to_owned(),
            git_sha: git_sha.map(ToOwned::to_owned),
            prompt_commit: prompt_commit.map(ToOwned::to_owned),
            state: "running".to_owned(),
            finished_at: None,
            pull_request: None,
        };
        assert!(job("rfp", Some("0123456"), None).is_of(&skill, commit));
        assert!(job("rfp", None, Some(commit)).is_of(&skill, commit));
        assert!(!job("rfp", None, None).is_of(&skill, commit));
        assert!(!job("rfp", Some(""), None).is_of(&skill, commit));
        assert!(!job("other", Some(commit), Some(commit)).is_of(&skill, commit));
        assert!(!job("rfp", Some(commit), Some(&commit.replace('0', "1"))).is_of(&skill, commit));
    }
}
