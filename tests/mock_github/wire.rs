//! The protocol of the control API: the server and the tests share this file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The one line on stdout when the server is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The REST API, without a final slash.
    pub(crate) api_url: String,
    /// Web and git, without a final slash.
    pub(crate) server_url: String,
    /// The control API, without a final slash.
    pub(crate) control_url: String,
    /// The artifact service and its blob store: a separate host, as on GitHub.
    pub(crate) results_url: String,
    /// The file with the certificate of its CA, with TLS.
    pub(crate) ca_file: Option<String>,
}

/// A repository to create.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewRepo {
    /// `owner/name`.
    pub(crate) full_name: String,
    /// Whether it is private.
    pub(crate) private: bool,
    /// Whether it is read-only.
    pub(crate) archived: bool,
    /// Whether auto-merge is allowed.
    pub(crate) allow_auto_merge: bool,
    /// `main` unless given.
    pub(crate) default_branch: Option<String>,
    /// The values of `${{ secrets.NAME }}`.
    pub(crate) secrets: BTreeMap<String, String>,
    /// Secrets of the organization that the repository may use.
    pub(crate) organization_secrets: BTreeMap<String, String>,
    /// By name.
    pub(crate) environments: BTreeMap<String, EnvironmentView>,
    /// As `POST /rulesets` takes them.
    pub(crate) rulesets: Vec<Value>,
    /// Branches with classic protection.
    pub(crate) protected_branches: Vec<String>,
    /// The settings of Actions.
    pub(crate) actions: ActionsSettings,
    /// The values of `${{ vars.NAME }}`.
    pub(crate) variables: BTreeMap<String, String>,
    /// Additional variables of every job, as a self-hosted runner's machine would set them.
    pub(crate) machine_env: BTreeMap<String, String>,
}

/// An environment of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EnvironmentView {
    /// The secrets.
    pub(crate) secrets: BTreeMap<String, String>,
    /// Whether branches are chosen by `branch_policies` (true) or by their protection (false); `None` for no restriction.
    pub(crate) custom_branch_policies: Option<bool>,
    /// Names of branches.
    pub(crate) branch_policies: Vec<String>,
    /// Who must approve.
    pub(crate) reviewer: Option<String>,
}

/// The Actions settings of a repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ActionsSettings {
    /// Whether workflows run.
    pub(crate) enabled: bool,
    /// `all`, `local_only` or `selected`.
    pub(crate) allowed: String,
    /// The actions that `selected` allows.
    pub(crate) patterns: Vec<String>,
    /// Whether actions must be pinned to a commit.
    pub(crate) sha_pinning_required: bool,
}

impl Default for ActionsSettings {
    fn default() -> Self {
        Self { enabled: true, allowed: "all".to_owned(), patterns: Vec::new(), sha_pinning_required: false }
    }
}

/// A repository, as the tests see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RepoView {
    /// `owner/name`.
    pub(crate) full_name: String,
    /// Whether it is private.
    pub(crate) private: bool,
    /// The secrets.
    pub(crate) secrets: BTreeMap<String, String>,
    /// By name.
    pub(crate) environments: BTreeMap<String, EnvironmentView>,
    /// The rulesets.
    pub(crate) rulesets: Vec<Value>,
}

/// The plan of an owner.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAccount {
    /// The user or the organization.
    pub(crate) login: String,
    /// `free`, `pro`, `team`, ….
    pub(crate) plan: String,
}

/// A file to commit on a branch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFile {
    /// `owner/name`.
    pub(crate) repo: String,
    /// The branch, which is created if it does not exist.
    pub(crate) branch: String,
    /// Its path.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) content_base64: String,
}

/// The kind of a token, which decides limits and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenKind {
    /// A fine-grained personal access token.
    #[default]
    Personal,
    /// A classic one, with all permissions in its repositories.
    Classic,
    /// An installation token of an App.
    Installation,
    /// `GITHUB_TOKEN` of a job.
    Job,
}

/// A token to accept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Its text.
    pub(crate) token: String,
    /// Its login.
    pub(crate) login: String,
    /// Its kind.
    pub(crate) kind: TokenKind,
    /// By `owner/name`, or `owner/*` for all repositories of an owner: permission → `read` or `write`.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, String>>,
    /// The scopes of a classic one; `repo` and `workflow` unless given.
    pub(crate) scopes: Option<Vec<String>>,
    /// The role of its owner: `admin` unless given, `write` or `read`.
    pub(crate) role: Option<String>,
}

/// A GitHub App to register; the response is its private key.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NewApp {
    /// Its id.
    pub(crate) id: u64,
    /// Where it is installed, by `owner/name`: permission → `read` or `write`.
    pub(crate) grants: BTreeMap<String, BTreeMap<String, String>>,
    /// How long an installation token is valid; an hour by default.
    pub(crate) token_seconds: Option<u64>,
}

/// A failure or a deviation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// What.
    #[serde(flatten)]
    pub(crate) what: What,
    /// How often; `None` for always.
    #[serde(default)]
    pub(crate) times: Option<u64>,
    /// How many matches pass before it strikes.
    #[serde(default)]
    pub(crate) skip: u64,
}

/// The kinds of fault.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum What {
    /// A route gives another response.
    Answer {
        /// `METHOD /path/{template}` as in GitHub's description; `*` at the end matches anything. The other services
        /// are `TWIRP CreateArtifact` and so on, `BLOB GET`, `BLOB PUT`, `GIT info/refs`, `GIT git-upload-pack` and
        /// `GIT git-receive-pack`.
        route: String,
        /// Whether the request takes effect first.
        after: bool,
        /// The response.
        answer: Wrong,
    },
    /// Any request gets another response: to the API, to git, to the artifact service or to its store.
    AnyAnswer {
        /// Whether the request takes effect first.
        after: bool,
        /// The response.
        answer: Wrong,
    },
    /// A token has no requests left.
    RateLimitUsedUp {
        /// When the limit resets.
        seconds: u64,
    },
    /// Dispatches return 204, whatever was requested.
    NoRunDetails,
    /// `return_run_details` is rejected, as before GHES 3.21.
    OldGhes,
    /// A new run is neither readable nor listed.
    RunInvisible {
        /// For how long.
        seconds: f64,
    },
    /// A new run waits for a machine.
    SlowQueue {
        /// For how long.
        seconds: f64,
    },
    /// A new run waits for a machine forever.
    NeverStarts,
    /// A new run fails before it has any job.
    StartupFailure,
    /// A new run is cancelled.
    RunCancelled {
        /// When.
        when: When,
    },
    /// A new run's jobs time out.
    RunTimesOut {
        /// When.
        when: When,
    },
    /// A matrix job of a new run is killed.
    JobKilled {
        /// Its index in the matrix; `None` for the first that starts.
        shard: Option<usize>,
        /// When.
        when: When,
        /// Whether its files are lost as well.
        machine_lost: bool,
    },
    /// A push loses a race.
    RefMoved {
        /// The prefix of the branch's name.
        branch: String,
    },
    /// A push is rejected by secret scanning.
    SecretScanning {
        /// The prefix of the branch's name.
        branch: String,
    },
    /// A push is rejected by push protection if a file in it contains an API key of a provider.
    PushProtection {
        /// The prefix of the branch's name.
        branch: String,
    },
    /// A push is rejected by a ruleset.
    Ruleset {
        /// The prefix of the branch's name.
        branch: String,
        /// The rule, in GitHub's words.
        rule: String,
    },
    /// An artifact is expired when it is requested.
    ArtifactExpired {
        /// The prefix of its name.
        name: String,
    },
}

/// A wrong response.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Wrong {
    /// A status, with a body and headers.
    Status {
        /// The status.
        status: u16,
        /// The body: JSON if it begins with `{`, otherwise HTML.
        body: String,
        /// Headers, for example `retry-after`.
        headers: BTreeMap<String, String>,
    },
    /// No response, forever.
    Hang,
    /// The first half of the right response, then a closed connection.
    Torn,
    /// A closed connection.
    Dropped,
    /// The right response, late.
    Late {
        /// The delay.
        ms: u64,
    },
}

/// A moment in the life of a run or job.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "after", rename_all = "snake_case")]
pub(crate) enum When {
    /// This long after its start.
    Seconds {
        /// How long.
        seconds: f64,
    },
    /// After this many accepted pushes to the repository since its start.
    Pushes {
        /// How many.
        count: usize,
    },
    /// After this many artifacts of the run.
    Artifacts {
        /// How many.
        count: usize,
    },
    /// When a number of a JSON document, for example a server's response count, reaches a value.
    Counter {
        /// The URL of the document.
        url: String,
        /// The JSON pointer of the number.
        pointer: String,
        /// The value to reach.
        at_least: u64,
    },
}

/// A fault and how often it struck.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FaultState {
    /// Its number.
    pub(crate) id: u64,
    /// The fault, with what is left of `times` and `skip`.
    pub(crate) fault: Fault,
    /// How often it struck.
    pub(crate) struck: u64,
}

/// A request, and the status of its response.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Recorded {
    /// `GET`, ….
    pub(crate) method: String,
    /// The path, without prefix and query.
    pub(crate) path: String,
    /// The query, as sent.
    pub(crate) query: String,
    /// Its route on GitHub; empty if none.
    pub(crate) route: String,
    /// The caller; empty without a token.
    pub(crate) login: String,
    /// The headers, without the token.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body, if it is JSON.
    pub(crate) body: Option<Value>,
    /// The status; 0 while there is none, or if the connection ended without one.
    pub(crate) status: u16,
    /// Whether it counts against the limit.
    pub(crate) counted: bool,
    /// Milliseconds since the server started.
    pub(crate) at_ms: u64,
}

/// A violation of GitHub's description.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Violation {
    /// The request.
    pub(crate) request: String,
    /// What is wrong.
    pub(crate) reason: String,
}

/// A completed push.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Push {
    /// `owner/name`.
    pub(crate) repo: String,
    /// `refs/heads/…`.
    pub(crate) reference: String,
    /// Who pushed.
    pub(crate) login: String,
    /// Whether the ref now has the pushed value.
    pub(crate) accepted: bool,
    /// Milliseconds since the server started.
    pub(crate) at_ms: u64,
}

/// A comment on a pull request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CommentView {
    /// Its id.
    pub(crate) id: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// The number of the pull request.
    pub(crate) number: u64,
    /// The author.
    pub(crate) login: String,
    /// The text.
    pub(crate) body: String,
    /// How often it was edited.
    pub(crate) updates: u64,
}

/// A pull request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PullView {
    /// Its id.
    pub(crate) id: u64,
    /// Its number.
    pub(crate) number: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// Who opened it.
    pub(crate) login: String,
    /// The branch with the changes.
    pub(crate) head: String,
    /// The target branch.
    pub(crate) base: String,
    /// Its title.
    pub(crate) title: String,
    /// The body.
    pub(crate) body: String,
    /// `open` or `closed`.
    pub(crate) state: String,
    /// Its labels.
    pub(crate) labels: Vec<String>,
    /// The auto-merge method, if enabled.
    pub(crate) auto_merge: Option<String>,
}

/// An issue.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IssueView {
    /// Its id.
    pub(crate) id: u64,
    /// Its number.
    pub(crate) number: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// Who opened it.
    pub(crate) login: String,
    /// Its title.
    pub(crate) title: String,
    /// The body.
    pub(crate) body: String,
    /// `open` or `closed`.
    pub(crate) state: String,
    /// How often it was edited.
    pub(crate) updates: u64,
}

/// A comment on a commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CommitCommentView {
    /// Its id.
    pub(crate) id: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// The commit.
    pub(crate) commit: String,
    /// The author.
    pub(crate) login: String,
    /// The text.
    pub(crate) body: String,
    /// How often it was edited.
    pub(crate) updates: u64,
}

/// A run, as the tests see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunView {
    /// Its id.
    pub(crate) id: u64,
    /// `owner/name`.
    pub(crate) repo: String,
    /// Its `run-name`.
    pub(crate) title: String,
    /// `queued`, `in_progress`, ….
    pub(crate) status: String,
    /// `success`, `failure`, …, once it is complete.
    pub(crate) conclusion: Option<String>,
    /// 1, and one more with each re-run.
    pub(crate) attempt: u64,
    /// What was dispatched, with defaults.
    pub(crate) inputs: BTreeMap<String, String>,
    /// The jobs of all attempts.
    pub(crate) jobs: Vec<JobView>,
    /// The names of its artifacts.
    pub(crate) artifacts: Vec<String>,
}

/// A job, as the tests see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct JobView {
    /// Its id.
    pub(crate) id: u64,
    /// For example `run (0)`.
    pub(crate) name: String,
    /// The attempt.
    pub(crate) attempt: u64,
    /// `queued`, `in_progress`, `completed`.
    pub(crate) status: String,
    /// The conclusion.
    pub(crate) conclusion: Option<String>,
    /// The exit code of the program, if it ended by itself.
    pub(crate) exit_code: Option<i32>,
    /// The process id, while there is one.
    pub(crate) pid: Option<u32>,
    /// The log, as a reader sees it.
    pub(crate) log: String,
    /// `GITHUB_OUTPUT`.
    pub(crate) outputs: BTreeMap<String, String>,
    /// `GITHUB_STEP_SUMMARY`.
    pub(crate) summary: String,
    /// Level and message.
    pub(crate) annotations: Vec<(String, String)>,
}
