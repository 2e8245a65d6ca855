//! `docs/openapi.yaml` against the router: every path, method and status, and every response.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::http::Answer;
use super::service::{OURS, Service, bare_workspace, bearer, job_headers};

/// Method, path, headers, body.
type Request<'r> = (&'r str, &'r str, &'r [(&'r str, &'r str)], &'r [u8]);

/// The description.
pub(super) struct Description(Value);

impl Description {
    pub(super) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/openapi.yaml");
        Self(serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    /// `METHOD /path/{name}` of a request, if it is documented.
    pub(super) fn find(&self, method: &str, path: &str) -> Option<(String, &Value)> {
        let path = path.split('?').next().unwrap();
        let fits = |template: &str| {
            let (template, path): (Vec<_>, Vec<_>) =
                (template.split('/').collect(), path.split('/').collect());
            let same = |(a, b): (&&str, &&str)| a == b || a.starts_with('{') && !b.is_empty();
            template.len() == path.len() && template.iter().zip(&path).all(same)
        };
        let (template, item) =
            self.0["paths"].as_object().unwrap().iter().find(|(template, _)| fits(template))?;
        let operation = item.get(method.to_ascii_lowercase())?;
        Some((format!("{method} {template}"), operation))
    }

    /// The documented statuses of every operation.
    fn statuses(&self) -> BTreeSet<(String, u16)> {
        let mut all = BTreeSet::new();
        for (path, item) in self.0["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                for status in operation["responses"].as_object().unwrap().keys() {
                    all.insert((format!("{} {path}", method.to_ascii_uppercase()), status.parse().unwrap()));
                }
            }
        }
        all
    }

    /// How a response differs from the description.
    pub(super) fn problems(&self, method: &str, path: &str, answer: &Answer) -> Vec<String> {
        let status = answer.status;
        let known = self.find(method, path);
        let Some((route, operation)) = known else {
            // Undocumented requests are rejected with the standard error.
            let legal = if self.find_path(path) { &[401, 405, 429][..] } else { &[404][..] };
            let told =
                if legal.contains(&status) { vec![] } else { vec![format!("{method} {path}: {status}")] };
            return [told, self.misfits("Refusal", answer)].concat();
        };
        let response = &operation["responses"][status.to_string().as_str()];
        let response = self.follow(response);
        if response.is_null() {
            return vec![format!("{route}: {status} is not described")];
        }
        let schema = &response["content"]["application/json"]["schema"]["$ref"];
        self.misfits(schema.as_str().unwrap().rsplit('/').next().unwrap(), answer)
    }

    fn find_path(&self, path: &str) -> bool {
        ["GET", "POST"].iter().any(|method| self.find(method, path).is_some())
    }

    fn follow<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(reference) => self.0.pointer(reference.trim_start_matches('#')).unwrap(),
            None => value,
        }
    }

    fn misfits(&self, schema: &str, answer: &Answer) -> Vec<String> {
        let schema =
            json!({"$ref": format!("#/components/schemas/{schema}"), "components": self.0["components"]});
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        if answer.header("content-type") != Some("application/json") {
            return vec![format!("{:?}", answer.header("content-type"))];
        }
        let body = answer.json();
        validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }
}

#[test]
fn every_response_matches_the_description() {
    let (workspace, description) = (bare_workspace(), Description::read());
    let service = Service::bare(&workspace, &[]);
    let token = bearer(OURS);
    let json = job_headers(&token);
    let wrong = bearer("wrong");
    let wrong = [("Authorization", wrong.as_str())];
    let large = format!(r#"{{"skill_name": "{}"}}"#, "a".repeat(20_000));
    let requests: Vec<Request<'_>> = vec![
        ("GET", "/health", &[], b""),
        ("GET", "/jobs", &json, b""),
        ("GET", "/jobs", &[], b""),
        ("GET", "/jobs/job-20260101t000000z-00000000", &json, b""),
        ("GET", "/jobs/x", &wrong, b""),
        ("POST", "/evaluate", &[], b"{}"),
        ("POST", "/evaluate", &json, b"{"),
        ("POST", "/evaluate", &json, b"{}"),
        ("POST", "/evaluate", &json, br#"{"skill_name": "nothing"}"#),
        ("POST", "/evaluate", &json, large.as_bytes()),
        ("POST", "/evaluate", &json[..1], b"{}"),
        ("GET", "/evaluate", &json, b""),
        ("POST", "/jobs", &json, b""),
        ("DELETE", "/jobs/x", &json, b""),
        ("POST", "/jobs/x/cancel", &json, b""),
        ("POST", "/jobs/x/cancel", &[], b""),
        ("GET", "/jobs/x/cancel", &json, b""),
        ("DELETE", "/health", &[], b""),
        ("GET", "/nothing", &[], b""),
    ];
    let mut seen = BTreeSet::new();
    for (method, path, headers, body) in requests {
        let answer = service.ask(method, path, headers, body);
        assert_eq!(
            description.problems(method, path, &answer),
            Vec::<String>::new(),
            "{method} {path}: {answer:?}"
        );
        if let Some((route, _)) = description.find(method, path) {
            seen.insert((route, answer.status));
        }
    }
    // The other statuses need a job, a proxy or time: separate tests cover each.
    let elsewhere = [
        ("GET /health", 403),
        ("GET /health", 405),
        ("GET /jobs", 403),
        ("GET /jobs", 405),
        ("GET /jobs", 429),
        ("GET /jobs/{id}", 200),
        ("GET /jobs/{id}", 403),
        ("GET /jobs/{id}", 405),
        ("GET /jobs/{id}", 429),
        ("POST /jobs/{id}/cancel", 202),
        ("POST /jobs/{id}/cancel", 403),
        ("POST /jobs/{id}/cancel", 405),
        ("POST /jobs/{id}/cancel", 409),
        ("POST /jobs/{id}/cancel", 429),
        ("POST /jobs/{id}/cancel", 503),
        ("POST /evaluate", 202),
        ("POST /evaluate", 403),
        ("POST /evaluate", 405),
        ("POST /evaluate", 408),
        ("POST /evaluate", 409),
        ("POST /evaluate", 429),
        ("POST /evaluate", 503),
    ];
    let elsewhere: BTreeSet<_> =
        elsewhere.iter().map(|(route, status)| ((*route).to_owned(), *status)).collect();
    let described = description.statuses();
    let missing: Vec<_> =
        described.iter().filter(|one| !seen.contains(one) && !elsewhere.contains(one)).collect();
    assert!(missing.is_empty(), "described, but never seen: {missing:?}");
    let needless: Vec<_> =
        elsewhere.iter().filter(|one| seen.contains(one) || !described.contains(one)).collect();
    assert!(needless.is_empty(), "excused for nothing: {needless:?}");
}

#[test]
fn the_example_of_the_description_is_accepted() {
    let Description(description) = Description::read();
    let order = &description["components"]["schemas"]["Order"];
    let validator = jsonschema::validator_for(order).unwrap();
    for good in ["a", "rfp-extraction", "9.x_y", "a--b", "a._b-", &"x".repeat(100)] {
        assert!(validator.is_valid(&json!({"skill_name": good})), "{good}");
    }
    for bad in ["", "..", "a..b", "../x", ".a", "-a", "A", "a b", &"x".repeat(101)] {
        assert!(!validator.is_valid(&json!({"skill_name": bad})), "{bad}");
    }
    for good in [json!(1), json!(100), json!("7"), json!("100"), json!(""), json!(null)] {
        assert!(validator.is_valid(&json!({"skill_name": "a", "replicates": good})), "{good}");
    }
    for bad in [json!(0), json!(101), json!("0"), json!("101"), json!("x"), json!(2.5)] {
        assert!(!validator.is_valid(&json!({"skill_name": "a", "replicates": bad})), "{bad}");
    }
    for (sha, is_good) in [("", true), ("0123abc", true), ("0123ab", false), ("HEAD", false)] {
        assert_eq!(validator.is_valid(&json!({"skill_name": "a", "git_sha": sha})), is_good, "{sha}");
    }
}
