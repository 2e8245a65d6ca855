//! The repository of the skill library.

use crate::model::{Exit, Failure, printable};
use crate::protocol::names::is_repository;
use crate::util::process_env::ProcessEnv;

/// The given repository, or the workflow's.
pub fn repository(named: Option<&str>, env: &ProcessEnv) -> Result<String, Failure> {
    let repo = named.or_else(|| env.get("GITHUB_REPOSITORY")).filter(|repo| !repo.is_empty());
    let repo = repo.ok_or_else(|| {
        Failure::new(Exit::Usage, "no skill library").hint("pass it with `--repo <owner>/<name>`")
    })?;
    if !is_repository(repo) {
        return Err(Failure::new(Exit::Usage, format!("`{}` is not a repository", printable(repo)))
            .hint("write the repository as `<owner>/<name>`"));
    }
    Ok(repo.to_owned())
}

/// The URL of the library, if the step knows its server.
pub fn library_url(env: &ProcessEnv, repo: Option<&str>) -> Option<String> {
    let server = env.get("GITHUB_SERVER_URL").filter(|url| !url.is_empty())?;
    let repo = repo.or_else(|| env.get("GITHUB_REPOSITORY")).filter(|repo| is_repository(repo))?;
    Some(format!("{}/{repo}", server.trim_end_matches('/')))
}
