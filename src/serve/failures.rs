//! Reports failed and interrupted jobs to the skill's authors: in one issue per skill, updated in place, or on the commit.

use super::evaluation::{Evaluator, ReportFailures};
use super::jobs::{JobState, ServiceJob};
use crate::model::{CommitSha, Failure, ShaPrefix, is_obeyed};

/// Reports the end of a job to GitHub: a job without a result opens the issue, a success closes it.
pub(super) async fn tell(evaluator: &Evaluator, job: &ServiceJob, state: &JobState) {
    // The person who cancelled knows, and neither the skill nor the service has failed.
    let is_cancelled = matches!(state, JobState::Cancelled { .. });
    if evaluator.report == ReportFailures::None || state.is_open() || is_cancelled {
        return;
    }
    match attempt(evaluator, job, state).await {
        Ok(Some(url)) => tracing::info!(url, "reported on GitHub"),
        Ok(None) => {}
        Err(error) => {
            let hint = error.downcast_ref::<Failure>().and_then(Failure::hint_text).unwrap_or_default();
            if has_no_result(state) {
                tracing::error!(hint, "could not report the job on GitHub: {error:#}");
            } else {
                tracing::warn!(hint, "could not report the job on GitHub: {error:#}");
            }
        }
    }
}

async fn attempt(
    evaluator: &Evaluator,
    job: &ServiceJob,
    state: &JobState,
) -> anyhow::Result<Option<String>> {
    let Some((github, repo)) = evaluator.github()? else { return Ok(None) };
    let skill = &job.order.skill;
    let mark = format!("<!-- run-evals: evaluation of {skill} -->");
    let body = format!("{mark}\n{}", text(job, state));
    let failed = has_no_result(state);
    let put = match (evaluator.report, commit(job)) {
        (ReportFailures::Issue, _) if failed => {
            let how = if matches!(state, JobState::Failed { .. }) { "failed" } else { "was interrupted" };
            github.put_issue(&repo, &mark, &format!("Evaluation of `{skill}` {how}"), &body).await.map(Some)
        }
        (ReportFailures::Issue, _) => github.close_issue(&repo, &mark, &body).await,
        (ReportFailures::CommitComment, Some(commit)) => {
            github.put_commit_comment(&repo, commit.as_str(), &mark, &body, failed).await
        }
        (ReportFailures::CommitComment, None) => {
            tracing::warn!("the commit is unknown: no commit to comment on");
            Ok(None)
        }
        (ReportFailures::None, _) => Ok(None),
    };
    Ok(put.map_err(Failure::from)?)
}

fn has_no_result(state: &JobState) -> bool {
    matches!(state, JobState::Failed { .. } | JobState::Interrupted { .. })
}

fn commit(job: &ServiceJob) -> Option<CommitSha> {
    let asked = || job.order.git_sha.as_ref().and_then(ShaPrefix::whole);
    job.prompt_commit().cloned().or_else(asked)
}

fn text(job: &ServiceJob, state: &JobState) -> String {
    let skill = &job.order.skill;
    let at = commit(job).map(|commit| format!(" at {commit}")).unwrap_or_default();
    let facts = format!(
        "Job `{}`, replicates: {}, requested at {}.",
        job.job_id, job.order.replicates, job.started_at
    );
    let rewritten =
        format!("The next failure of `{skill}` replaces this text; the next success resolves it.");
    match state {
        JobState::Failed { reason } => format!(
            "The evaluation of `{skill}`{at} failed:\n\n{}\n\n{facts}\n\n{rewritten}\n",
            fenced(reason)
        ),
        JobState::Interrupted { progress } => {
            let after = progress.map(|now| format!(" after {} of {} calls", now.done, now.total));
            format!(
                "The evaluation of `{skill}`{at} was interrupted{}: the service stopped before it was finished.\n\nAll \
                 responses are kept. Request the same evaluation again, or start the service with `--resume-jobs`: only the \
                 missing calls are made.\n\n{facts}\n\n{rewritten}\n",
                after.unwrap_or_default()
            )
        }
        JobState::Completed { pull_request, .. } => {
            let results = pull_request.as_ref().map(|url| format!(": {url}")).unwrap_or_default();
            format!("The evaluation of `{skill}`{at} succeeded{results}\n\n{facts}\n")
        }
        JobState::Queued | JobState::Running { .. } | JobState::Cancelled { .. } => String::new(),
    }
}

/// Untrusted text in a code block, in which nothing is a link, a mention or the end of the block.
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
    fn untrusted_text_stays_in_its_code_block() {
        assert_eq!(fenced("no"), "```text\nno\n```");
        assert_eq!(fenced("a ```` b\u{1b}[2J\n@all"), "`````text\na ```` b[2J\n@all\n`````");
    }
}
