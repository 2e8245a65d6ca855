//! A failure reaches whoever wrote the skill: in an issue, one for each skill and updated in place, or on the commit.

use super::jobs::{Job, JobState};
use super::work::{ReportFailures, Work};
use crate::model::{CommitSha, Failure, ShaPrefix, is_obeyed};

/// Tells GitHub how a job ended: a failure is told, a success takes an earlier one back.
pub(super) async fn tell(work: &Work, job: &Job, state: &JobState) {
    if work.report == ReportFailures::None
        || !matches!(state, JobState::Failed { .. } | JobState::Completed { .. })
    {
        return;
    }
    match attempt(work, job, state).await {
        Ok(Some(url)) => tracing::info!(url, "told on GitHub"),
        Ok(None) => {}
        Err(error) => {
            let hint = error.downcast_ref::<Failure>().and_then(Failure::hint_text).unwrap_or_default();
            if matches!(state, JobState::Failed { .. }) {
                tracing::error!(hint, "could not be told on GitHub: {error:#}");
            } else {
                tracing::warn!(hint, "could not be told on GitHub: {error:#}");
            }
        }
    }
}

async fn attempt(work: &Work, job: &Job, state: &JobState) -> anyhow::Result<Option<String>> {
    let Some((github, repo)) = work.github()? else { return Ok(None) };
    let skill = &job.order.skill;
    let mark = format!("<!-- run-evals: evaluation of {skill} -->");
    let body = format!("{mark}\n{}", text(job, state));
    let failed = matches!(state, JobState::Failed { .. });
    let put = match (work.report, commit(job)) {
        (ReportFailures::Issue, _) if failed => {
            github.put_issue(&repo, &mark, &format!("Evaluation of `{skill}` failed"), &body).await.map(Some)
        }
        (ReportFailures::Issue, _) => github.close_issue(&repo, &mark, &body).await,
        (ReportFailures::CommitComment, Some(commit)) => {
            github.put_commit_comment(&repo, commit.as_str(), &mark, &body, failed).await
        }
        (ReportFailures::CommitComment, None) => {
            tracing::warn!("the commit is not known: there is nothing to comment on");
            Ok(None)
        }
        (ReportFailures::None, _) => Ok(None),
    };
    Ok(put.map_err(Failure::from)?)
}

fn commit(job: &Job) -> Option<CommitSha> {
    let asked = || job.order.git_sha.as_ref().and_then(ShaPrefix::whole);
    job.prompt_commit().cloned().or_else(asked)
}

fn text(job: &Job, state: &JobState) -> String {
    let skill = &job.order.skill;
    let at = commit(job).map(|commit| format!(" at {commit}")).unwrap_or_default();
    let facts = format!(
        "Job `{}`, replicates: {}, asked for at {}.",
        job.job_id, job.order.replicates, job.started_at
    );
    match state {
        JobState::Failed { reason } => format!(
            "The evaluation of `{skill}`{at} failed:\n\n{}\n\n{facts}\n\nThis is written anew with each failure of `{skill}`, and \
             taken back when an evaluation of it succeeds.\n",
            fenced(reason)
        ),
        JobState::Completed { pull_request, .. } => {
            let results = pull_request.as_ref().map(|url| format!(": {url}")).unwrap_or_default();
            format!("The evaluation of `{skill}`{at} succeeded{results}\n\n{facts}\n")
        }
        _ => String::new(),
    }
}

/// Text of others, in which nothing is a link, a mention or the end of the block.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let clean: String = text.chars().filter(|c| *c == '\n' || !is_obeyed(*c)).collect();
    format!("{fence}text\n{clean}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_stays_in_its_block() {
        assert_eq!(fenced("no"), "```text\nno\n```");
        assert_eq!(fenced("a ```` b\u{1b}[2J\n@all"), "`````text\na ```` b[2J\n@all\n`````");
    }
}
