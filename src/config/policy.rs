//! `.run-evals.yml`: what the owner of a runner repository allows, whatever a batch requests.

use std::path::Path;

use reqwest::Url;

use super::{Document, Fields, Node, Problems, Source, unknown_hint};
use crate::model::{Auth, Digest, Endpoint, Failure, RunnerTarget, printable};

/// The legal keys.
const KEYS: [&str; 7] = [
    "allowed_targets",
    "allowed_models",
    "max_requests",
    "max_budget_usd",
    "allowed_senders",
    "keyless",
    "rollout",
];
/// The legal keys of `rollout`.
const ROLLOUT_KEYS: [&str; 1] = ["model_base_urls"];

/// The longest list that a message repeats.
const LISTED: usize = 10;

/// What a runner repository allows. The default limits nothing: targets have their own limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    allowed_targets: Option<Vec<String>>,
    allowed_models: Option<Vec<String>>,
    allowed_senders: Option<Vec<String>>,
    max_requests: Option<u64>,
    max_budget_usd: Option<f64>,
    /// Whether static keys are refused.
    requires_keyless: bool,
    /// The base URLs at which rollouts may call a model.
    model_base_urls: Option<Vec<Url>>,
    sha256: Option<Digest>,
}

impl Policy {
    /// The path of the file in the runner repository.
    pub const PATH: &str = ".run-evals.yml";
    /// All legal paths, of which only one may exist.
    pub const PLACES: [&str; 2] = [Self::PATH, ".run-evals.yaml"];

    /// Reads a policy file; messages call it `shown_as`. A file without keys limits nothing.
    pub fn parse(shown_as: &Path, bytes: Vec<u8>) -> Result<Self, Failure> {
        let sha256 = Some(Digest::of(&bytes));
        let source = Source::decode(shown_as, bytes)?;
        let document = Document::parse(source.path, source.text)?;
        if document.root.is_null() {
            return Ok(Self { sha256, ..Self::default() });
        }
        let mut problems = Problems::default();
        let policy = read(&document.root, &mut problems);
        problems.finish()?;
        Ok(Self { sha256, ..policy.unwrap_or_default() })
    }

    /// The digest of the file; `None` without one.
    pub fn sha256(&self) -> Option<Digest> {
        self.sha256
    }

    /// Refuses a sender who may not start runs.
    pub fn check_sender(&self, login: &str) -> Result<(), Failure> {
        let Some(allowed) = &self.allowed_senders else { return Ok(()) };
        // Logins are not case-sensitive on GitHub.
        if allowed.iter().any(|name| name.eq_ignore_ascii_case(login)) {
            return Ok(());
        }
        let message = format!("`{}` may not start runs here", printable(login));
        Err(refused(message, "allowed_senders", allowed))
    }

    /// Refuses a target by its own name and by the name the batch uses, and a batch that is too large. Both names are checked
    /// because an allowed alias would allow any target it is pointed at later.
    pub fn check_batch(&self, asked: &str, target: &RunnerTarget, requests: u64) -> Result<(), Failure> {
        if let Some(allowed) = &self.allowed_targets
            && !matches_any(allowed, &target.name)
        {
            let own = printable(&target.name);
            let behind = if asked == target.name { String::new() } else { format!(", which is `{own}`,") };
            let message = format!("the target `{}`{behind} may not be used by batches", printable(asked));
            return Err(refused(message, "allowed_targets", allowed));
        }
        self.check_keyless(target)?;
        if let Some(most) = self.max_requests.filter(|most| requests > *most) {
            let message = format!("the batch has {requests} requests, and {most} are allowed");
            let hint =
                format!("split it, or raise `max_requests` in `{}` of the runner repository", Self::PATH);
            return Err(Failure::config(message).hint(hint));
        }
        if self.max_budget_usd.is_some() && target.price.is_none() {
            let message =
                format!("`max_budget_usd` of the policy needs a `price` in target `{}`", target.name);
            let hint = "add `price: { input_per_mtok: …, output_per_mtok: … }` to the target in the runner repository";
            return Err(Failure::config(message).hint(hint));
        }
        Ok(())
    }

    /// Refuses a target with a static key if the policy requires keyless authentication.
    fn check_keyless(&self, target: &RunnerTarget) -> Result<(), Failure> {
        let is_static = |endpoint: &Endpoint| matches!(endpoint.auth, Auth::Key(_) | Auth::Aws(_));
        if !self.requires_keyless || !target.provider.endpoint().is_some_and(is_static) {
            return Ok(());
        }
        let message =
            format!("the target `{}` has a static key, and the policy allows none", printable(&target.name));
        let hint = format!(
            "write `auth` instead of the key (docs/keyless.md), or remove `keyless: required` from `{}` of the runner repository",
            Self::PATH
        );
        Err(Failure::config(message).hint(hint))
    }

    /// Refuses a model, whether the target's own or a request's.
    pub fn check_model(&self, model: &str) -> Result<(), Failure> {
        match &self.allowed_models {
            Some(allowed) if !matches_any(allowed, model) => {
                let message = format!("the model `{}` may not be used by batches", printable(model));
                Err(refused(message, "allowed_models", allowed))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a model of a rollout.
    pub fn check_rollout_model(&self, model: &str) -> Result<(), Failure> {
        match &self.allowed_models {
            Some(allowed) if !matches_any(allowed, model) => {
                let message = format!("the model `{}` may not be used by rollouts", printable(model));
                Err(refused(message, "allowed_models", allowed))
            }
            _ => Ok(()),
        }
    }

    /// Refuses rollouts with more calls than allowed, and all rollouts if static keys are refused or a budget is set: the cost of a
    /// call behind a tracing endpoint is unknown here, so the budget could not be enforced.
    pub fn check_rollouts(&self, calls: u64) -> Result<(), Failure> {
        if self.requires_keyless {
            let message =
                "rollouts call with a static key, and `keyless: required` of the policy allows none";
            let hint = "keep rollouts in a separate repository, without `keyless: required` in its policy";
            return Err(Failure::config(message).hint(hint));
        }
        if self.max_budget_usd.is_some() {
            let message = "`max_budget_usd` of the policy cannot be enforced for rollouts: the cost of their calls is unknown here";
            let hint = format!(
                "limit them by `max_requests` and `allowed_models`, and remove `max_budget_usd` from `{}`, or keep rollouts in a separate repository",
                Self::PATH
            );
            return Err(Failure::config(message).hint(hint));
        }
        if let Some(most) = self.max_requests.filter(|most| calls > *most) {
            let message = format!("the rollouts of this run make {calls} calls, and {most} are allowed");
            let hint = format!(
                "send fewer in one run, or raise `max_requests` in `{}` of the runner repository",
                Self::PATH
            );
            return Err(Failure::config(message).hint(hint));
        }
        Ok(())
    }

    /// Whether a rollout may call this URL, found in `place`, with a key of the repository: `false` if the owner lists no URLs, an
    /// error if the list does not cover it.
    pub fn check_model_base_url(&self, place: &str, url: &Url) -> Result<bool, Failure> {
        let Some(allowed) = &self.model_base_urls else { return Ok(false) };
        if allowed.iter().any(|base| is_below(base, url)) {
            return Ok(true);
        }
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let host = url.host_str().unwrap_or_default();
        let message = format!("`{place}`: rollouts may not call `{}`", printable(host));
        Err(refused(message, "rollout.model_base_urls", &allowed))
    }

    /// The most that one run of a batch may spend.
    pub fn max_budget_usd(&self) -> Option<f64> {
        self.max_budget_usd
    }
}

fn read(root: &Node, problems: &mut Problems) -> Option<Policy> {
    let mut fields = root.fields("policy", problems)?;
    let mut policy = Policy::default();
    for (key, slot) in [
        ("allowed_targets", &mut policy.allowed_targets),
        ("allowed_models", &mut policy.allowed_models),
        ("allowed_senders", &mut policy.allowed_senders),
    ] {
        let items = fields.list(key, problems);
        *slot = items.map(|items| items.iter().filter_map(|item| name(key, item, problems)).collect());
    }
    policy.max_requests = fields.count("max_requests", problems);
    policy.max_budget_usd = fields.number("max_budget_usd", problems);
    if let (Some(budget), Some(node)) = (policy.max_budget_usd, fields.get("max_budget_usd"))
        && !(budget.is_finite() && budget > 0.0)
    {
        problems.error(&node.span, format!("`max_budget_usd`: expected an amount above 0, found {budget}"));
    }
    if let Some(node) = fields.get("keyless").filter(|node| !node.is_null()) {
        policy.requires_keyless = node.as_str() == Some("required");
        if !policy.requires_keyless {
            let message = format!("`keyless`: expected `required`, found {}", node.kind());
            problems.error_with_hint(&node.span, message, "remove the line to allow static keys");
        }
    }
    policy.model_base_urls = fields.get("rollout").and_then(|node| read_rollout(node, problems));
    // A limit without a value looks like a limit but sets none.
    for (key, value) in root.entries().unwrap_or_default() {
        if value.is_null() && KEYS.contains(&key.text.as_str()) {
            let hint = "give it a value, or remove the line to set no limit";
            problems.error_with_hint(&key.span, format!("`{}` has no value", key.text), hint);
        }
    }
    refuse_unknown(&fields, "a policy", &KEYS, problems);
    Some(policy)
}

/// `rollout: { model_base_urls: […] }`.
fn read_rollout(node: &Node, problems: &mut Problems) -> Option<Vec<Url>> {
    let mut fields = node.fields("rollout", problems)?;
    let items = fields.list("model_base_urls", problems);
    refuse_unknown(&fields, "`rollout`", &ROLLOUT_KEYS, problems);
    let url = |item: &Node| {
        let url = item.as_str().and_then(|text| Url::parse(text.trim()).ok());
        let is_legal = |url: &Url| {
            let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
            matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain
        };
        if url.as_ref().is_some_and(is_legal) {
            return url;
        }
        let hint = "such as `https://traces.example.com`; everything below it is allowed, and no patterns";
        problems.error_with_hint(&item.span, "`model_base_urls`: expected the base of a URL", hint);
        None
    };
    // `rollout` without the list looks like a limit but sets none.
    Some(items.unwrap_or_default().iter().filter_map(url).collect())
}

fn refuse_unknown(fields: &Fields<'_>, what: &str, legal: &[&str], problems: &mut Problems) {
    for key in fields.unknown() {
        let hint = unknown_hint(&key.text, legal, &format!("in {what}"));
        problems.error_with_hint(&key.span, format!("unknown key `{}`", key.text), hint);
    }
}

/// Whether a URL is at or below the base: same host and port, and whole path segments.
fn is_below(base: &Url, url: &Url) -> bool {
    let place =
        |url: &Url| (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default());
    let path = base.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(path);
    place(base) == place(url) && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn name(key: &str, item: &Node, problems: &mut Problems) -> Option<String> {
    let Some(text) = item.as_str().map(str::trim).filter(|text| !text.is_empty()) else {
        problems.error(&item.span, format!("`{key}`: expected a name, found {}", item.kind()));
        return None;
    };
    if key == "allowed_senders" && text.contains('*') {
        let hint = "list every login: anyone can register a name that fits a pattern";
        problems.error_with_hint(&item.span, "`allowed_senders` takes no patterns", hint);
        return None;
    }
    Some(text.to_owned())
}

fn refused(message: String, key: &str, allowed: &[String]) -> Failure {
    let names: Vec<String> = allowed.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let others = if allowed.len() > LISTED { " and others" } else { "" };
    let list = if names.is_empty() { "nothing".to_owned() } else { format!("{}{others}", names.join(", ")) };
    Failure::config(message)
        .hint(format!("`{key}` in `{}` of the runner repository allows {list}", Policy::PATH))
}

fn matches_any(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

/// Whether a name matches a pattern in which `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').map_or((None, rest), |(middle, last)| (Some(middle), last));
    for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "\
allowed_targets: [gpt, mock-*]
allowed_models:
  - gpt-6*
  - claude-*-latest
max_requests: 1000
max_budget_usd: 2.5
allowed_senders: [Octocat, 'my-app[bot]']
";

    fn policy(text: &str) -> Policy {
        Policy::parse(Path::new(".run-evals.yml"), text.as_bytes().to_vec()).unwrap()
    }

    fn problem(text: &str) -> String {
        Policy::parse(Path::new(".run-evals.yml"), text.as_bytes().to_vec()).unwrap_err().to_string()
    }

    fn told(result: Result<(), Failure>) -> String {
        let failure = result.unwrap_err();
        format!("{failure}\nhint: {}", failure.hint_text().unwrap())
    }

    fn target(name: &str, text: &str) -> RunnerTarget {
        let text = format!("targets:\n  - name: {name}\n    provider: mock\n{text}");
        let targets =
            crate::config::TargetsFile::parse(text.into_bytes(), Path::new("t.yaml"), Path::new(""));
        let env = crate::config::Env::from([]);
        match targets.unwrap().0.resolve(name, &env).unwrap() {
            crate::model::Target::Runner(target) => *target,
            crate::model::Target::Remote(_) => unreachable!(),
        }
    }

    const PRICE: &str = "    price: { input_per_mtok: 1, output_per_mtok: 1 }\n";

    #[test]
    fn allowed_requests_pass() {
        let policy = policy(POLICY);
        policy.check_sender("octocat").unwrap();
        policy.check_sender("My-App[bot]").unwrap();
        policy.check_batch("gpt", &target("gpt", PRICE), 1000).unwrap();
        policy.check_batch("alias", &target("mock-1", PRICE), 1).unwrap();
        policy.check_model("gpt-6-luna").unwrap();
        policy.check_model("claude-opus-latest").unwrap();
        assert_eq!(policy.max_budget_usd(), Some(2.5));
    }

    #[test]
    fn static_keys_can_be_refused() {
        let policy = policy("keyless: required\n");
        policy.check_batch("gpt", &target("gpt", ""), 1).unwrap();
        let keyed = |more: &str| {
            let text = format!("targets:\n  - name: gpt\n    model: m\n{more}");
            let (file, _) =
                crate::config::TargetsFile::parse(text.into_bytes(), Path::new("t.yaml"), Path::new(""))
                    .unwrap();
            match file.resolve_without_keys("gpt", &crate::config::Env::from([])).unwrap() {
                crate::model::Target::Runner(target) => *target,
                crate::model::Target::Remote(_) => unreachable!(),
            }
        };
        let ids = "    auth: { github_oidc: { identity_provider_id: i, service_account_id: s } }\n";
        policy.check_batch("gpt", &keyed(&format!("    provider: openai\n{ids}")), 1).unwrap();
        insta::assert_snapshot!(told(policy.check_batch("gpt", &keyed("    provider: openai\n    api_key: ${{ KEY }}\n"), 1)), @r"
        the target `gpt` has a static key, and the policy allows none
        hint: write `auth` instead of the key (docs/keyless.md), or remove `keyless: required` from `.run-evals.yml` of the runner repository
        ");
        assert!(policy.check_rollouts(1).is_err());
        insta::assert_snapshot!(problem("keyless: true\n"), @r"
        `keyless`: expected `required`, found a boolean
          --> .run-evals.yml:1:10
           |
         1 | keyless: true
           |          ^^^^

        hint: remove the line to allow static keys
        ");
    }

    #[test]
    fn other_requests_are_rejected() {
        let policy = policy(POLICY);
        insta::assert_snapshot!(told(policy.check_sender("mallory\n::error::")), @r"
        `mallory\n::error::` may not start runs here
        hint: `allowed_senders` in `.run-evals.yml` of the runner repository allows `Octocat`, `my-app[bot]`
        ");
        insta::assert_snapshot!(told(policy.check_batch("expensive", &target("expensive", PRICE), 1)), @r"
        the target `expensive` may not be used by batches
        hint: `allowed_targets` in `.run-evals.yml` of the runner repository allows `gpt`, `mock-*`
        ");
        insta::assert_snapshot!(told(policy.check_batch("gpt", &target("behind-an-alias", PRICE), 1)), @r"
        the target `gpt`, which is `behind-an-alias`, may not be used by batches
        hint: `allowed_targets` in `.run-evals.yml` of the runner repository allows `gpt`, `mock-*`
        ");
        insta::assert_snapshot!(told(policy.check_batch("gpt", &target("gpt", PRICE), 10_000_000)), @r"
        the batch has 10000000 requests, and 1000 are allowed
        hint: split it, or raise `max_requests` in `.run-evals.yml` of the runner repository
        ");
        insta::assert_snapshot!(told(policy.check_batch("gpt", &target("gpt", ""), 1)), @r"
        `max_budget_usd` of the policy needs a `price` in target `gpt`
        hint: add `price: { input_per_mtok: …, output_per_mtok: … }` to the target in the runner repository
        ");
        insta::assert_snapshot!(told(policy.check_model("o9-pro")), @r"
        the model `o9-pro` may not be used by batches
        hint: `allowed_models` in `.run-evals.yml` of the runner repository allows `gpt-6*`, `claude-*-latest`
        ");
    }

    #[test]
    fn an_empty_list_allows_nothing_and_an_empty_file_everything() {
        let empty = policy("allowed_senders: []\n");
        insta::assert_snapshot!(told(empty.check_sender("octocat")), @r"
        `octocat` may not start runs here
        hint: `allowed_senders` in `.run-evals.yml` of the runner repository allows nothing
        ");
        for text in ["", "# nothing yet\n", "{}\n"] {
            assert_eq!(Policy { sha256: None, ..policy(text) }, Policy::default());
        }
    }

    #[test]
    fn all_mistakes_are_shown_at_once() {
        insta::assert_snapshot!(problem("allowed_target: [x]\nmax_requests: many\nmax_budget_usd: -1\nallowed_models:\nallowed_senders: ['*-bot', 7]\n"), @r"
        `allowed_senders` takes no patterns
          --> .run-evals.yml:5:19
           |
         5 | allowed_senders: ['*-bot', 7]
           |                   ^^^^^^^

        hint: list every login: anyone can register a name that fits a pattern

        error: `allowed_senders`: expected a name, found a number
          --> .run-evals.yml:5:28
           |
         5 | allowed_senders: ['*-bot', 7]
           |                            ^

        error: `max_requests`: expected a whole number, 0 or more, found a string
          --> .run-evals.yml:2:15
           |
         2 | max_requests: many
           |               ^^^^

        error: `max_budget_usd`: expected an amount above 0, found -1
          --> .run-evals.yml:3:17
           |
         3 | max_budget_usd: -1
           |                 ^^

        error: `allowed_models` has no value
          --> .run-evals.yml:4:1
           |
         4 | allowed_models:
           | ^^^^^^^^^^^^^^

        hint: give it a value, or remove the line to set no limit

        error: unknown key `allowed_target`
          --> .run-evals.yml:1:1
           |
         1 | allowed_target: [x]
           | ^^^^^^^^^^^^^^

        hint: did you mean `allowed_targets`?
        ");
        insta::assert_snapshot!(problem("- allowed_senders\n"), @r"
        policy: expected a mapping, found a list
          --> .run-evals.yml:1:1
           |
         1 | - allowed_senders
           | ^
        ");
    }

    #[test]
    fn rollouts_can_call_listed_urls_and_paths_below_them() {
        let listed =
            policy("rollout:\n  model_base_urls: [https://traces.example.com/a, 'http://localhost:9/']\n");
        let check = |url: &str| listed.check_model_base_url("model_base_url", &Url::parse(url).unwrap());
        for url in
            ["https://traces.example.com/a", "https://TRACES.example.com:443/a/b", "http://localhost:9"]
        {
            assert!(check(url).unwrap(), "{url}");
        }
        for url in [
            "https://traces.example.com/ab",
            "https://traces.example.com/a/../b",
            "https://traces.example.com",
            "https://traces.example.com.evil.example/a",
            "https://traces.example.com:444/a",
            "http://traces.example.com/a",
            "http://localhost:99/",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
        insta::assert_snapshot!(told(check("https://evil.example").map(|_| ())), @r"
        `model_base_url`: rollouts may not call `evil.example`
        hint: `rollout.model_base_urls` in `.run-evals.yml` of the runner repository allows `https://traces.example.com/a`, `http://localhost:9/`
        ");
        assert!(
            !Policy::default()
                .check_model_base_url("model_base_url", &Url::parse("https://x").unwrap())
                .unwrap()
        );
        assert!(
            policy("rollout: {}\n")
                .check_model_base_url("model_base_url", &Url::parse("https://x").unwrap())
                .is_err()
        );
        insta::assert_snapshot!(problem("rollout: { model_base_url: [x], model_base_urls: ['*', 'https://u:p@h'] }\n"), @r"
        unknown key `model_base_url`
          --> .run-evals.yml:1:12
           |
         1 | rollout: { model_base_url: [x], model_base_urls: ['*', 'https://u:p@h'] }
           |            ^^^^^^^^^^^^^^

        hint: did you mean `model_base_urls`?

        error: `model_base_urls`: expected the base of a URL
          --> .run-evals.yml:1:51
           |
         1 | rollout: { model_base_url: [x], model_base_urls: ['*', 'https://u:p@h'] }
           |                                                   ^^^

        hint: such as `https://traces.example.com`; everything below it is allowed, and no patterns

        error: `model_base_urls`: expected the base of a URL
          --> .run-evals.yml:1:56
           |
         1 | rollout: { model_base_url: [x], model_base_urls: ['*', 'https://u:p@h'] }
           |                                                        ^^^^^^^^^^^^^^^

        hint: such as `https://traces.example.com`; everything below it is allowed, and no patterns
        ");
    }

    #[test]
    fn a_star_matches_any_text() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("a*", "a", true),
            ("a*b", "ab", true),
            ("a*b", "aab", true),
            ("a*b*c", "axbxbc", true),
            ("a*b*c", "axc", false),
            ("aa*aa", "aaa", false),
            ("a", "ab", false),
            ("*b", "abc", false),
            ("[bot]", "b", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
