//! The wire to the service: one request, one answer, nothing repeated, no redirect followed, and the token on no wire that others read.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Certificate, Client, Method, Url};
use serde::{Deserialize, Serialize};

use crate::model::{Exit, Failure, Redactor, Replicates, Secret, ShaPrefix, SkillName, printable};

const USER_AGENT: &str = concat!("run-evals/", env!("CARGO_PKG_VERSION"));
const CONNECT: Duration = Duration::from_secs(10);
/// The largest answer to a request for an evaluation.
const LARGEST_ANSWER: usize = 64 << 10;
/// The largest list of jobs.
const LARGEST_LIST: usize = 16 << 20;
/// How much of the service's own words is repeated.
const LONGEST_TEXT: usize = 500;

/// How the service is reached.
#[derive(Debug)]
pub struct ServiceOptions<'a> {
    /// Where it is: `https://…`, or `http://…` on this machine.
    pub url: &'a str,
    /// What it knows us by.
    pub token: Secret,
    /// The certificates to trust instead of the system's, in PEM format.
    pub ca: Option<Vec<u8>>,
    /// How long a whole answer may take.
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

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Order {
    /// The skill.
    #[serde(rename = "skill_name")]
    pub skill: SkillName,
    /// How often each case is asked.
    pub replicates: Replicates,
    /// At which commit; without it, at the newest of the default branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_sha: Option<ShaPrefix>,
}

/// What the service says to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It does it.
    Accepted {
        /// What it calls it.
        job_id: String,
    },
    /// It does something else now.
    Busy(Option<CurrentJob>),
    /// It will not.
    Refused {
        /// The status of its answer.
        status: u16,
        /// Why, in its own words.
        reason: String,
    },
    /// Nobody knows: no answer came.
    Nothing {
        /// What went wrong.
        cause: String,
        /// Whether the service may have seen the order.
        sent: bool,
    },
}

/// What a busy service does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentJob {
    /// The skill.
    pub skill: String,
    /// Since when.
    #[serde(default)]
    pub started_at: Option<String>,
}

/// A job of the service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Job {
    /// Its name.
    pub job_id: String,
    /// The skill.
    pub skill: String,
    /// The commit that was asked for.
    #[serde(default)]
    pub git_sha: Option<String>,
    /// The commit that is evaluated.
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

impl Job {
    /// Whether it is still to end.
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
            // Whoever redirects must not get the token, nor the order a second time.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .timeout(options.timeout)
            .http1_only();
        if base.scheme() == "http" {
            // A proxy would be on the way to this very machine.
            builder = builder.no_proxy();
        }
        if let Some(pem) = &options.ca {
            let certificates = Certificate::from_pem_bundle(pem).ok().filter(|all| !all.is_empty());
            let certificates = certificates.ok_or_else(|| {
                Failure::config("the certificates of the service's CA are not in PEM format")
                    .hint("they begin with `-----BEGIN CERTIFICATE-----`; `--ca-file` or the variable `RUN_EVALS_SERVE_CA` has them")
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
            Failure::config("the service's token contains a character that no token has")
                .hint("store it again, without quotes and without text around it")
        })?;
        authorization.set_sensitive(true);
        Ok(Self { http, base, authorization, redactor: Redactor::new([&options.token]) })
    }

    /// Asks for an evaluation, once.
    pub async fn evaluate(&self, order: &Order) -> Answer {
        let body = serde_json::to_vec(order).unwrap_or_default();
        match self.ask(Method::POST, "evaluate", Some(body), LARGEST_ANSWER).await {
            Err(answer) => answer,
            Ok((202, body)) => {
                #[derive(Deserialize)]
                struct Accepted {
                    job_id: String,
                }
                match serde_json::from_slice::<Accepted>(&body) {
                    Ok(Accepted { job_id }) => Answer::Accepted { job_id: self.shown(&job_id) },
                    Err(_) => Answer::Refused { status: 202, reason: "the answer names no job".to_owned() },
                }
            }
            Ok((409, body)) => {
                #[derive(Deserialize)]
                struct Busy {
                    #[serde(default)]
                    current_job: Option<CurrentJob>,
                }
                let current = serde_json::from_slice::<Busy>(&body).ok().and_then(|busy| busy.current_job);
                Answer::Busy(current.map(|job| CurrentJob {
                    skill: self.shown(&job.skill),
                    started_at: job.started_at.map(|time| self.shown(&time)),
                }))
            }
            Ok((status, body)) => Answer::Refused { status, reason: self.reason(&body) },
        }
    }

    /// All jobs that the service knows, the newest first.
    pub async fn jobs(&self) -> Result<Vec<Job>, Failure> {
        #[derive(Deserialize)]
        struct List {
            jobs: Vec<Job>,
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
                Err(error) => {
                    Err(failed(format!("the answer cannot be used: {}", printable(&error.to_string()))))
                }
            },
            Ok((status, body)) => {
                let failure = failed(format!("it answered {status}: {}", self.reason(&body)));
                Err(match hint(status) {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                })
            }
            Err(Answer::Nothing { cause, .. }) => Err(failed(cause).hint(UNREACHABLE)),
            Err(_) => Err(failed("no answer".to_owned())),
        }
    }

    /// The job with names that can be shown.
    fn inert(&self, job: Job) -> Job {
        Job { job_id: self.shown(&job.job_id), skill: self.shown(&job.skill), ..job }
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
    ) -> Result<(u16, Vec<u8>), Answer> {
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
                (true, true) => "no answer in time".to_owned(),
                (true, false) => "no connection in time".to_owned(),
                _ => printable(&innermost(&error)),
            };
            Answer::Nothing { cause, sent }
        };
        let mut answer = request.send().await.map_err(nothing)?;
        let status = answer.status().as_u16();
        let mut whole = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(nothing)? {
            if whole.len() + chunk.len() > most {
                let cause = format!("the answer is larger than {} KiB", most >> 10);
                return Err(Answer::Nothing { cause, sent: true });
            }
            whole.extend_from_slice(&chunk);
        }
        Ok((status, whole))
    }

    /// Why the service refuses, in its own words.
    fn reason(&self, body: &[u8]) -> String {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        match serde_json::from_slice::<Refusal>(body) {
            Ok(Refusal { error }) => self.shown(&error),
            Err(_) if body.is_empty() => "no reason given".to_owned(),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // The page of a proxy says nothing that helps.
                if text.trim_start().starts_with('<') {
                    "a web page instead of a reason".to_owned()
                } else {
                    self.shown(&text)
                }
            }
        }
    }

    /// The service's own words, short and without what they must not say.
    fn shown(&self, text: &str) -> String {
        let text = self.redactor.redact(text.trim().to_owned());
        let mut shown: String = text.chars().take(LONGEST_TEXT).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        printable(&shown)
    }
}

const UNREACHABLE: &str = "check the address, the network and the proxy variables; a certificate of your own CA is trusted with `--ca-file` or the \
                           variable `RUN_EVALS_SERVE_CA`";

/// The way out of a refusal.
pub(super) fn hint(status: u16) -> Option<&'static str> {
    Some(match status {
        401 => {
            "the token is none of the service's: compare `RUN_EVALS_SERVE_TOKEN` with what it was started with"
        }
        403 => "the service takes requests from certain addresses only: add that of this machine to its list",
        404 => {
            "the default branch of the library has no such component, or the address is not that of the service"
        }
        200..=299 | 400 | 413 => "the address may not be that of a `run-evals serve` of this version",
        422 => "the commit must be on the default branch of the library",
        429 => "too many attempts with a wrong token: wait, and correct it",
        503 => "the service could not bring its clones up to date: its log says why",
        500.. => "the service, or the proxy before it, has trouble: its log says why",
        300..=399 => "redirects are not followed: name the address that the service itself has",
        _ => return None,
    })
}

/// The way out of silence.
pub(super) fn silence(sent: bool) -> &'static str {
    if sent { "the service may have begun all the same: its list of jobs says so" } else { UNREACHABLE }
}

fn parse_url(text: &str) -> Result<Url, Failure> {
    const HINT: &str = "such as `https://evaluator.example.org`";
    let wrong = |why: &str| Failure::new(Exit::Usage, format!("the address of the service {why}")).hint(HINT);
    let url = Url::parse(text.trim()).map_err(|_| wrong("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wrong("is not an `https` URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "must not have credentials: the token comes as the variable `RUN_EVALS_SERVE_TOKEN`",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must not have a query or a fragment"));
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(wrong("must be `https`: over `http` everybody on the way could read the token"));
    }
    Ok(url)
}

/// Whether the address is one of this very machine, by its number or as `localhost`.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The innermost error: the outer ones only say that a request was sent.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        parse_url(url).unwrap_err().to_string()
    }

    #[test]
    fn the_token_travels_only_where_nobody_reads_it() {
        for good in [
            "https://e.example.org",
            "https://e.example.org/evals/",
            "http://127.0.0.1:8080",
            "http://[::1]:1",
            "http://localhost:9",
        ] {
            assert!(parse_url(good).is_ok(), "{good}");
        }
        insta::assert_snapshot!(refused("http://e.example.org"), @"the address of the service must be `https`: over `http` everybody on the way could read the token");
        for plain in [
            "http://10.0.0.1",
            "http://localhost.example.org",
            "http://127.0.0.1.nip.io",
            "http://0.0.0.0",
            "http://[::]",
        ] {
            assert!(refused(plain).contains("must be `https`"), "{plain}");
        }
        insta::assert_snapshot!(refused("https://u:p@e.example.org"), @"the address of the service must not have credentials: the token comes as the variable `RUN_EVALS_SERVE_TOKEN`");
        insta::assert_snapshot!(refused("https://e.example.org/?x=1"), @"the address of the service must not have a query or a fragment");
        insta::assert_snapshot!(refused("ftp://e.example.org"), @"the address of the service is not an `https` URL");
        insta::assert_snapshot!(refused("evaluator"), @"the address of the service is not a URL");
    }

    #[test]
    fn a_job_is_known_by_skill_and_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let skill: SkillName = "rfp".parse().unwrap();
        let job = |skill: &str, git_sha: Option<&str>, prompt_commit: Option<&str>| Job {
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
