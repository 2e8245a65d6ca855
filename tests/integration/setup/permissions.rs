//! Missing permissions are listed before anything is created.

use super::scene::{Account, all_repositories};
use crate::support::github::{NewRepo, NewToken, TokenKind};

const REPO: &str = "mona/eval-runner";
/// What a fine-grained token needs.
const ALL: [(&str, &str); 7] = [
    ("metadata", "read"),
    ("actions", "write"),
    ("administration", "write"),
    ("contents", "write"),
    ("environments", "write"),
    ("secrets", "write"),
    ("workflows", "write"),
];

fn existing() -> Account {
    let account = Account::new();
    account.github.repo(&NewRepo { full_name: REPO.to_owned(), private: true, ..NewRepo::default() });
    account.github.put_file(REPO, "README.md", "mine\n");
    account
}

#[test]
fn a_fine_grained_token_with_all_permissions_sets_up_everything() {
    let account = Account::new();
    account.token("github_pat_all", &NewToken { grants: all_repositories(&ALL), ..NewToken::default() });
    let account = account.with_token("github_pat_all");
    account.init(REPO, &[]).expect(0);
    account.workspace.run(&["doctor"]).expect(0);
}

#[test]
fn each_missing_permission_is_listed_before_anything_changes() {
    for (missing, told) in [
        ("actions", "repository permission `Actions: read`"),
        ("administration", "repository permission `Administration: write`"),
        ("contents", "repository permission `Contents: write`"),
        ("environments", "repository permission `Environments: write`"),
        // Found only by writing; it is the first write.
        ("workflows", "cannot add `.github/workflows/run-evals.yml`"),
    ] {
        let account = existing();
        let rest: Vec<_> = ALL.into_iter().filter(|(name, _)| *name != missing).collect();
        account
            .token("github_pat_less", &NewToken { grants: all_repositories(&rest), ..NewToken::default() });
        let account = account.with_token("github_pat_less");
        let before = (account.settings(REPO), account.github.git(REPO, &["rev-parse", "main"]));
        let output = account.init(REPO, &[]);
        assert!(matches!(output.code, Some(1 | 3)), "{missing}: {}", output.stderr);
        assert!(output.stderr.contains(told), "{missing}: {}", output.stderr);
        let after = (account.settings(REPO), account.github.git(REPO, &["rev-parse", "main"]));
        assert_eq!(before, after, "{missing}");
        assert!(!account.workspace.path("targets.yaml").exists());
    }
}

#[test]
fn several_missing_permissions_are_listed_at_once() {
    let account = existing();
    account.token(
        "github_pat_read",
        &NewToken { grants: all_repositories(&[("metadata", "read")]), ..NewToken::default() },
    );
    let account = account.with_token("github_pat_read");
    insta::assert_snapshot!(account.init(REPO, &[]).expect(3).stderr, @r"
    error: the token cannot set up `mona/eval-runner`; nothing was changed. It lacks:
      - repository permission `Contents: write`: the files
      - repository permission `Administration: write`: the environment and the branch rule
      - repository permission `Actions: read`: environments
      - repository permission `Environments: write`: the secret of the environment

    hint: a fine-grained token or App needs access to `mona/eval-runner` with Administration, Contents, Environments, Secrets and Workflows: read and write, and Actions: read and write
    ");
}

#[test]
fn a_classic_token_without_scopes_or_without_admin_rights() {
    let account = existing();
    let classic = |scopes: &[&str], role: &str| NewToken {
        kind: TokenKind::Classic,
        grants: all_repositories(&[]),
        scopes: Some(scopes.iter().map(|scope| (*scope).to_owned()).collect()),
        role: Some(role.to_owned()),
        ..NewToken::default()
    };
    account.token("ghp_no_workflow", &classic(&["repo"], "admin"));
    account.token("ghp_writer", &classic(&["repo", "workflow"], "write"));
    let account = account.with_token("ghp_no_workflow");
    insta::assert_snapshot!(account.init(REPO, &[]).expect(3).stderr, @r"
    error: the token cannot set up `mona/eval-runner`; nothing was changed. It lacks:
      - scope `workflow`: the workflow file

    hint: `gh auth refresh --scopes repo,workflow`; an admin of the repository can make you one
    ");
    let position = account.github.requests().len();
    // A new repository is not created either.
    account.init("mona/new", &[]).expect(3);
    assert!(account.github.settings("mona/new").is_none());
    let account = account.with_token("ghp_writer");
    let told = account.init(REPO, &[]).expect(3).stderr;
    assert!(told.contains("  - admin access to `mona/eval-runner`"), "{told}");
    assert_eq!(account.writes_since(position), [] as [&str; 0]);
}

#[test]
fn a_repository_that_may_not_be_created_is_an_error_with_the_permission() {
    let account = Account::new();
    let rest: Vec<_> = ALL.into_iter().filter(|(name, _)| *name != "administration").collect();
    account.token("github_pat_less", &NewToken { grants: all_repositories(&rest), ..NewToken::default() });
    let account = account.with_token("github_pat_less");
    insta::assert_snapshot!(account.init("acme/new", &[]).expect(1).stderr, @r"
    error: cannot create the repository `acme/new`: GitHub returned 403: Resource not accessible by personal access token

    hint: a fine-grained token needs access to `acme/new` with the repository permission `administration=write`
    ");
}
