//! Publishes the entries: commits the leaderboard to a new branch, and opens a pull request for it.

use super::body::{pull_request_body, pull_request_title};
use super::check_out::{BoardFile, Checkout, read_leaderboard};
use super::clones::{OpenClone, Origin, git_in, open, patiently};
use super::failure::Failure;
use super::plan;
use super::result::EvaluationResult;
use super::workspace::Workspace;
use crate::git::{CommitOutcome, NewFile, ObjectId, PushOutcome, Remote, may_push};
use crate::github::{Client, NewPull};
use crate::model;
use crate::model::{Exit, Secret, printable};
use crate::protocol::names::is_repository;

/// How often another name is tried if a branch already exists.
const TRIES: u32 = 3;
/// The ref for a branch that was pushed before, while it is inspected.
const PUBLISHED: &str = "refs/run-evals/published";

/// How to publish results.
#[derive(Debug, Clone, Default)]
pub struct PublishOptions {
    /// The library's repository on GitHub, `owner/name`; by default the one it was cloned from.
    pub repo: Option<String>,
    /// Labels of the pull request.
    pub labels: Vec<String>,
    /// Whether GitHub merges it as soon as its checks allow.
    pub auto_merge: bool,
    /// The author: `Name <address>`; by default run-evals.
    pub identity: Option<String>,
    /// The URL of the run that made the results.
    pub run_url: Option<String>,
}

/// Checks the name of the results repository.
pub fn check_repo(repo: Option<&str>) -> Result<(), model::Failure> {
    match repo.filter(|repo| !is_repository(repo)) {
        None => Ok(()),
        Some(repo) => {
            Err(model::Failure::new(Exit::Usage, format!("`{}` is not a repository", printable(repo)))
                .hint("`--repo` takes `<owner>/<name>`"))
        }
    }
}

/// The published results.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Published {
    /// The branch; `None` if the leaderboard already has the same entries.
    pub branch: Option<String>,
    /// The URL of the pull request; `None` if it could not be opened, which `warnings` explains.
    pub pull_request_url: Option<String>,
    /// Warnings, also about the pull request.
    pub warnings: Vec<String>,
}

/// Checks whether results can be pushed, before any call. Whether a pull request may be opened is known only when it
/// is.
pub async fn may_publish(
    checkout: &Checkout,
    github: &Client,
    options: &PublishOptions,
) -> Result<(), Failure> {
    let repo = repository(checkout.origin.as_deref(), github, options)?;
    let info = github.repository(&repo).await.map_err(model::Failure::from)?;
    let token = github.git_token(&repo).await.map_err(model::Failure::from)?;
    let work = tokio::task::spawn_blocking(move || {
        let remote = Remote::new(&info.clone_url, Some(token));
        patiently(&remote, || may_push(&remote)).map_err(model::Failure::from)
    });
    let done = work.await.map_err(|error| anyhow::anyhow!("checking the library was aborted: {error}"))?;
    Ok(done?)
}

/// Commits the entries on a new branch on top of the default branch, pushes it, and opens the pull request.
pub async fn publish(
    workspace: &Workspace,
    evaluated: &EvaluationResult,
    github: &Client,
    options: &PublishOptions,
) -> Result<Published, Failure> {
    let result = attempt(workspace, evaluated, github, options).await;
    result.map_err(|failure| kept(failure, evaluated))
}

async fn attempt(
    workspace: &Workspace,
    evaluated: &EvaluationResult,
    github: &Client,
    options: &PublishOptions,
) -> Result<Published, Failure> {
    if !evaluated.is_on_default {
        let message = format!(
            "the commit {} is not part of the default branch: its entries do not belong there",
            evaluated.pinned.prompt_commit.short()
        );
        return Err(model::Failure::config(message)
            .hint("merge it first, or evaluate without a pull request")
            .into());
    }
    let repo = repository(evaluated.origin.as_deref(), github, options)?;
    let info = github.repository(&repo).await.map_err(model::Failure::from)?;
    let token = github.git_token(&repo).await.map_err(model::Failure::from)?;
    let earlier = plan::recall_branch(workspace, &evaluated.id);
    let open = match &earlier {
        Some(branch) => github.find_pull(&repo, branch).await.map_err(model::Failure::from)?,
        None => None,
    };
    let branch = commit_and_push(workspace, evaluated, options, &info.clone_url, token, earlier).await?;
    let Some((branch, base)) = branch else { return Ok(Published::default()) };

    let mut published = Published { branch: Some(branch.clone()), ..Published::default() };
    let (title, body) =
        (pull_request_title(evaluated), pull_request_body(evaluated, options.run_url.as_deref()));
    if let Some(pull) = open {
        // The same evaluation was published before: update its pull request.
        if let Err(error) = github.update_pull(&repo, pull.number, &title, &body).await {
            published.warnings.push(model::Failure::from(error).to_string());
        }
        return Ok(Published { pull_request_url: Some(pull.html_url), ..published });
    }
    let new = NewPull { head: &branch, base: &base, title: &title, body: &body };
    let opened = match github.open_pull(&repo, &new).await {
        Ok(pull) => Ok(pull),
        // Another attempt for the same branch may have opened it.
        Err(error) => match github.find_pull(&repo, &branch).await {
            Ok(Some(pull)) => Ok(pull),
            _ => Err(error),
        },
    };
    let pull = match opened {
        Ok(pull) => pull,
        Err(error) => {
            let failure = model::Failure::from(error);
            let hint = failure.hint_text().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            let page = format!("{}/compare/{base}...{branch}?expand=1", info.html_url);
            published.warnings.push(format!(
                "{failure}{hint}\nthe results are on the branch `{branch}` of `{repo}`; open the pull request at {}",
                printable(&page)
            ));
            return Ok(published);
        }
    };
    published.pull_request_url = Some(pull.html_url.clone());
    if github.is_job_token() {
        published.warnings.push(
            "the pull request was opened with a job's `GITHUB_TOKEN`: GitHub starts no workflow for it, so that its checks do \
             not run\nhint: use the token of a GitHub App or of a person"
                .to_owned(),
        );
    }
    let mut note = |result: Result<(), crate::github::ApiError>| {
        if let Err(error) = result {
            let failure = model::Failure::from(error);
            let hint = failure.hint_text().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            published.warnings.push(format!("{failure}{hint}"));
        }
    };
    if !options.labels.is_empty() {
        note(github.add_labels(&repo, pull.number, &options.labels).await);
    }
    if options.auto_merge {
        note(github.merge_when_ready(&repo, &pull).await);
    }
    Ok(published)
}

/// The library's repository on GitHub.
fn repository(
    origin: Option<&str>,
    github: &Client,
    options: &PublishOptions,
) -> Result<String, model::Failure> {
    let cloned_from = || origin.and_then(|url| github.repo_of(url)).map(|(repo, _)| repo);
    options.repo.clone().or_else(cloned_from).ok_or_else(|| {
        model::Failure::new(Exit::Usage, "the library's repository on GitHub is unknown")
            .hint("pass it: `--repo <owner>/<name>`; `origin` of the library is not on this GitHub")
    })
}

/// The pushed branch and its base; `None` if nothing has changed.
async fn commit_and_push(
    workspace: &Workspace,
    evaluated: &EvaluationResult,
    options: &PublishOptions,
    url: &str,
    token: Secret,
    mut earlier: Option<String>,
) -> Result<Option<(String, String)>, Failure> {
    let (workspace, url, evaluated, identity) =
        (workspace.clone(), url.to_owned(), evaluated.clone(), options.identity.clone());
    let work = tokio::task::spawn_blocking(move || {
        let origin = Origin::new(&url, Some(token.clone()));
        let library = open(&workspace.library, origin).map_err(model::Failure::from)?;
        let read = read_leaderboard(&library, &evaluated.skill).map_err(model::Failure::from)?;
        let BoardFile { path, board, .. } = read;
        let bytes = evaluated.inserted(board.clone()).to_bytes();
        if bytes == board.to_bytes() {
            return Ok(None);
        }
        let remote = Remote::new(&url, Some(token));
        let message = format!("{}\n\n{}\n", pull_request_title(&evaluated), commit_body(&evaluated));
        let base = library.branch.clone();
        let file = BranchFile { path: &path, bytes: &bytes };
        let mut over = None;
        if let Some(branch) = &earlier {
            match look_at(&library, &remote, branch, &evaluated, &file)? {
                // It was pushed before.
                PushedBranch::Ours(_, true) => return Ok(Some((branch.clone(), base))),
                // There are more entries now, or the default branch has moved.
                PushedBranch::Ours(tip, false) => over = Some(tip),
                PushedBranch::Nothing => {}
                PushedBranch::Another => earlier = None,
            }
        }
        let mut tries = 0;
        loop {
            let branch = earlier.take().unwrap_or_else(|| branch_name(&evaluated));
            plan::remember_branch(&workspace, &evaluated.id, &branch)?;
            let board = (path.as_str(), bytes.as_slice());
            let details = evaluated.details.iter().map(|file| (file.path.as_str(), file.bytes.as_slice()));
            let mut contents: Vec<(&str, &[u8])> = std::iter::once(board).chain(details).collect();
            let mut files: Vec<NewFile<'_>> = Vec::new();
            for file in &mut contents {
                let (path, size) = (file.0.to_owned(), file.1.len() as u64);
                files.push(NewFile { path, size, content: &mut file.1 });
            }
            let parent = Some(&library.default);
            // An attempt that was killed before its push has left it in the clone.
            library.repository.delete_branch(&branch)?;
            let committed =
                library.repository.commit_as(identity.as_deref(), &branch, parent, &message, &mut files)?;
            let pushed = match committed {
                CommitOutcome::Done => {
                    let mut is_repeated = false;
                    patiently(&remote, || {
                        // The first push may have succeeded although its response was lost.
                        if std::mem::replace(&mut is_repeated, true)
                            && matches!(
                                look_at(&library, &remote, &branch, &evaluated, &file)?,
                                PushedBranch::Ours(_, true)
                            )
                        {
                            return Ok(PushOutcome::Done);
                        }
                        match &over {
                            Some(tip) => library.repository.push_over(&remote, &branch, tip),
                            None => library.repository.push(&remote, &branch, true),
                        }
                    })
                }
                CommitOutcome::LostRace(error) => Ok(PushOutcome::Moved(error)),
            };
            // What was pushed is on the remote, anything else is recreated.
            library.repository.delete_branch(&branch)?;
            tries += 1;
            match pushed {
                Ok(PushOutcome::Done) => return Ok(Some((branch, base))),
                Ok(PushOutcome::Moved(_)) if tries < TRIES => {
                    std::thread::sleep(std::time::Duration::from_millis(1100));
                }
                Ok(PushOutcome::Moved(error)) => return Err(anyhow::Error::new(error)),
                Ok(PushOutcome::Refused(words)) => {
                    let message = format!("`{url}` rejected the branch `{branch}`: {words}");
                    return Err(model::Failure::new(Exit::Failure, message)
                        .hint("a ruleset of the repository forbids it: let the token's owner bypass it for `eval-results/*`")
                        .into());
                }
                Ok(PushOutcome::InTheWay) => {
                    let message =
                        format!("`{url}` has a branch `eval-results`, which is in the way of `{branch}`");
                    return Err(model::Failure::config(message).hint("rename or delete that branch").into());
                }
                Err(error) => {
                    // The push may have succeeded although its response was lost.
                    if matches!(
                        look_at(&library, &remote, &branch, &evaluated, &file),
                        Ok(PushedBranch::Ours(_, true))
                    ) {
                        return Ok(Some((branch, base)));
                    }
                    return Err(model::Failure::from(error).into());
                }
            }
        }
    });
    let done = work.await.map_err(|error| anyhow::anyhow!("publishing was aborted: {error}"))?;
    Ok(done?)
}

/// The remote's branch of this name.
#[derive(Debug, PartialEq, Eq)]
enum PushedBranch {
    Nothing,
    /// The commit of this evaluation, and whether its file is up to date.
    Ours(ObjectId, bool),
    /// A commit of another evaluation.
    Another,
}

/// The file for a branch.
struct BranchFile<'f> {
    path: &'f str,
    bytes: &'f [u8],
}

/// Looks up a branch on the remote. The result of a push before a crash is unknown.
fn look_at(
    library: &OpenClone,
    remote: &Remote,
    branch: &str,
    evaluated: &EvaluationResult,
    file: &BranchFile<'_>,
) -> anyhow::Result<PushedBranch> {
    let repository = &library.repository;
    let fetched = patiently(remote, || repository.fetch_reference(remote, branch, PUBLISHED, false));
    if !fetched.map_err(model::Failure::from)? {
        return Ok(PushedBranch::Nothing);
    }
    let Some(commit) = repository.commit_named(PUBLISHED)? else { return Ok(PushedBranch::Nothing) };
    let git = git_in(repository, &library.root)?;
    let message = git.ask("show", &["--no-patch", "--format=%B", "--end-of-options", &commit.to_string()])?;
    let has = library.file(&commit, file.path, u64::MAX)?;
    git.run("update-ref", &["-d", PUBLISHED])?;
    let is_ours = message.lines().any(|line| line == evaluation_line(evaluated));
    Ok(if is_ours {
        PushedBranch::Ours(commit, has.as_deref() == Some(file.bytes))
    } else {
        PushedBranch::Another
    })
}

/// Distinguishes the commits of two evaluations, even with equal entries in the same second.
fn evaluation_line(evaluated: &EvaluationResult) -> String {
    format!("Evaluation: {}", evaluated.id)
}

/// Colons are illegal in a branch name.
fn branch_name(evaluated: &EvaluationResult) -> String {
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    format!("eval-results/{}-{}-{now}", evaluated.skill, evaluated.pinned.prompt_commit.short())
}

fn commit_body(evaluated: &EvaluationResult) -> String {
    let models: Vec<String> =
        evaluated.entries.iter().map(|entry| format!("- {}", entry.model_shown())).collect();
    let (commit, models) = (&evaluated.pinned.prompt_commit, models.join("\n"));
    format!("prompt_commit: {commit}\n\n{models}\n\n{}", evaluation_line(evaluated))
}

/// Adds where unpublished entries are stored.
fn kept(failure: Failure, evaluated: &EvaluationResult) -> Failure {
    let failure = model::Failure::from(failure);
    let message = format!("{failure}\nnothing is lost: the entries are in `{}`", evaluated.kept.display());
    let told = model::Failure::new(failure.exit(), message);
    match failure.hint_text() {
        Some(hint) => told.hint(hint).into(),
        None => told.into(),
    }
}
