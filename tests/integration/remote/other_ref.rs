//! Another branch can run, but the default branch decides which host gets the key.

use crate::support::MockLlm;
use crate::support::github::workflow;
use crate::support::stage::{REPO, Stage, runner_targets};

#[test]
fn the_targets_of_the_running_branch_are_not_used() {
    let stage = Stage::new();
    let hostile = MockLlm::start(&[]);
    stage.github.put_file_on(REPO, "dev", ".github/workflows/run-evals.yml", workflow());
    stage.github.put_file_on(REPO, "dev", "targets.yaml", runner_targets(&hostile.base_url(), ""));
    stage.github.put_file_on(REPO, "dev", ".run-evals.yml", "allowed_senders: []\n");
    stage.target("ref: dev");
    stage.workspace.write_requests(4);
    stage.dispatch(&[]).expect(0);
    stage.all_answered(4);
    stage.paid_once(4);
    assert_eq!(hostile.counter("requests"), 0);
    let posts = stage.github.requests();
    let refs =
        posts.iter().filter_map(|request| request.body.as_ref()?["ref"].as_str().map(ToOwned::to_owned));
    assert_eq!(refs.collect::<Vec<_>>(), ["dev"]);
}
