//! `init runner`, stopped at every write: a second run completes it.

use std::collections::BTreeMap;

use super::scene::{Account, KEY};
use crate::support::github::{Fault, What, Wrong};

const REPO: &str = "/repos/{owner}/{repo}";

#[test]
fn a_second_run_completes_whatever_write_failed() {
    let writes = [
        ("POST /user/repos".to_owned(), 0),
        (format!("PUT {REPO}/contents/{{path}}"), 0),
        (format!("PUT {REPO}/contents/{{path}}"), 1),
        (format!("PUT {REPO}/contents/{{path}}"), 2),
        (format!("PUT {REPO}/environments/{{environment_name}}"), 0),
        (format!("POST {REPO}/environments/{{environment_name}}/deployment-branch-policies"), 0),
        (format!("PUT {REPO}/environments/{{environment_name}}/secrets/{{secret_name}}"), 0),
        (format!("POST {REPO}/rulesets"), 0),
    ];
    let account = Account::new();
    account.init("mona/whole", &[]).expect(0);
    let whole = account.settings("mona/whole");
    for (number, (route, skip)) in writes.into_iter().enumerate() {
        for after in [false, true] {
            let repo = format!("mona/cut-{number}-{after}");
            std::fs::remove_file(account.workspace.path("targets.yaml")).unwrap();
            let answer = Wrong::Status {
                status: 403,
                body: r#"{"message":"Resource not accessible by personal access token"}"#.to_owned(),
                headers: BTreeMap::new(),
            };
            let what = What::Answer { route: route.clone(), after, answer };
            let fault = account.github.add_fault(&Fault { what, times: Some(1), skip });
            let cut = account.init(&repo, &[]).expect(1);
            assert_eq!(account.github.struck(fault), 1, "{route} was not called: {}", cut.stderr);
            assert!(!cut.stderr.contains(KEY));
            account.github.clear_faults();
            let second = account.init(&repo, &[]);
            assert_eq!(second.code, Some(0), "{route}, {after}: {}", second.stderr);
            let settings = account.settings(&repo);
            assert_eq!(settings.environments, whole.environments, "{route}, {after}");
            assert_eq!(settings.rulesets.len(), 1, "{route}, {after}");
            for path in [".github/workflows/run-evals.yml", "targets.yaml", ".run-evals.yml"] {
                assert_eq!(account.file(&repo, path), account.file("mona/whole", path), "{route}, {after}");
            }
            assert!(account.workspace.read("targets.yaml").contains(&repo));
        }
    }
}
