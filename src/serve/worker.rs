//! A job on a thread of its own, with a runtime of its own: whatever happens at the port does not slow it down, and
//! whatever it does keeps nobody at the port waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use super::answer::Refusal;
use super::app::App;
use super::failures;
use super::jobs::{Job, JobId, JobState, Progress, Taken};
use super::work::{self, CheckedOut, Order, Work};

/// How long GitHub may take to hear of a failure.
const REPORT_WITHIN: Duration = Duration::from_mins(1);
const OUR_FAULT: &str = "something went wrong in the service itself; its log tells what";

/// What whoever asked hears: the job, or why there is none.
pub(super) type Reply = oneshot::Sender<Result<JobId, Refusal>>;

/// Begins what was asked for. The reply comes when git has answered.
pub(super) fn begin(
    app: &Arc<App>,
    work: &Arc<Work>,
    order: Order,
    started_at: Timestamp,
    taken: Taken,
    reply: Reply,
) {
    let job = Job::new(JobId::new(started_at), order, started_at);
    start(app, work, job, taken, Some(reply));
}

/// Goes on with jobs that were interrupted, one after the other, until the service is told to stop.
pub(super) async fn resume(app: Arc<App>, work: Arc<Work>, jobs: Vec<Job>) {
    for job in jobs {
        loop {
            app.slot.is_free().await;
            match app.slot.take(&job.order.skill, job.started_at) {
                Ok(taken) => {
                    app.jobs.set(&job.job_id, JobState::Queued);
                    start(&app, &work, job, taken, None);
                    break;
                }
                Err(super::jobs::NoPlace::Busy(_)) => {}
                Err(super::jobs::NoPlace::Closed) => return,
            }
        }
    }
}

fn start(app: &Arc<App>, work: &Arc<Work>, job: Job, taken: Taken, reply: Option<Reply>) {
    let (app, work) = (Arc::clone(app), Arc::clone(work));
    let working = Working::new(&app.working);
    let begun = std::thread::Builder::new().name("job".to_owned()).spawn(move || {
        let (id, app) = (job.job_id.clone(), app);
        let span = tracing::info_span!("job", job = %id);
        let _entered = span.clone().entered();
        let on_thread = AssertUnwindSafe(|| on_thread(&app, &work, job, taken, reply, &span));
        // What goes wrong after the end of the job does not change how it ended.
        if catch_unwind(on_thread).is_err() && app.jobs.get(&id).is_some_and(|job| job.state.is_open()) {
            app.jobs.set(&id, JobState::Failed { reason: OUR_FAULT.to_owned() });
        }
        drop(working);
    });
    if let Err(error) = begun {
        // Everything that went into the thread is gone with it: the slot is free, the reply is closed.
        tracing::error!("cannot start a thread: {error}");
    }
}

fn on_thread(app: &App, work: &Work, job: Job, taken: Taken, reply: Option<Reply>, span: &tracing::Span) {
    let span = span.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // What blocks has threads of its own, whose lines belong to the job too.
        .on_thread_start(move || std::mem::forget(span.clone().entered()))
        .build();
    match runtime {
        Ok(runtime) => {
            runtime.block_on(async {
                run(app, work, job, taken, reply).await;
                if let Err(error) = work.tidy(&app.jobs) {
                    tracing::warn!("what old jobs have left could not be deleted: {error:#}");
                }
            });
            // A git that hangs must not keep the thread.
            runtime.shutdown_background();
        }
        Err(error) => tracing::error!("cannot start a runtime: {error}"),
    }
}

async fn run(app: &App, work: &Work, mut job: Job, taken: Taken, reply: Option<Reply>) {
    let is_new = reply.is_some();
    let checked_out = work.check_out(&job.order).await;
    if reply.as_ref().is_some_and(Reply::is_closed) {
        tracing::warn!("whoever asked is gone: nothing was begun");
        return;
    }
    let (checked_out, outcome) = match checked_out {
        Ok(checked_out) => (Some(checked_out), None),
        Err(work::Refused::Answer(refusal)) => return refused(app, work, job, taken, reply, refusal).await,
        Err(work::Refused::Job(reason)) => (None, Some(JobState::Failed { reason })),
    };
    if let Some(checked_out) = &checked_out {
        job.order.pinned = Some(checked_out.pinned().clone());
        if is_new {
            // What an earlier order has paid for and nobody has got is not paid for again.
            let earlier = app.jobs.without_result(&job.order).map(|earlier| earlier.batch().clone());
            job.continues = earlier.filter(|batch| checked_out.finds(batch));
        }
    }
    if is_new && let Err(error) = app.jobs.add(job.clone()) {
        tracing::error!("{error:#}");
        if let Some(reply) = reply {
            drop(taken);
            let _ =
                reply.send(Err(Refusal::Unavailable("the job could not be written down here".to_owned())));
        }
        return;
    }
    let commit = job.prompt_commit().map(ToString::to_string);
    let continues = job.continues.as_ref().map(JobId::as_str);
    tracing::info!(skill = %job.order.skill, replicates = job.order.replicates.get(), commit, continues, resumed = !is_new, "job begun");
    if let Some(reply) = reply {
        let _ = reply.send(Ok(job.job_id.clone()));
    }
    let outcome = match (outcome, checked_out) {
        (Some(outcome), _) => outcome,
        (None, Some(checked_out)) => evaluate(app, work, &job, &checked_out).await,
        (None, None) => JobState::Failed { reason: OUR_FAULT.to_owned() },
    };
    finish(app, work, job, taken, outcome).await;
}

/// Tells whoever asked that there is no job; one that was to be resumed ends, or waits for the next start.
async fn refused(app: &App, work: &Work, job: Job, taken: Taken, reply: Option<Reply>, refusal: Refusal) {
    if let Some(reply) = reply {
        let (skill, status) = (job.order.skill.as_str(), refusal.status().as_u16());
        tracing::warn!(skill, status, "refused: {}", refusal.reason());
        // Whoever is told that the place is free must find it free.
        drop(taken);
        let _ = reply.send(Err(refusal));
        return;
    }
    let state = match refusal {
        // A network that is not there yet after a power cut is no reason to give up what was paid for.
        Refusal::Unavailable(reason) => {
            tracing::warn!("not resumed: {reason}");
            JobState::Interrupted { progress: None }
        }
        refusal => JobState::Failed { reason: refusal.reason() },
    };
    finish(app, work, job, taken, state).await;
}

async fn evaluate(app: &App, work: &Work, job: &Job, checked_out: &CheckedOut) -> JobState {
    let id = &job.job_id;
    app.jobs.set(id, JobState::Running { progress: Progress { done: 0, total: 0 } });
    let told = |progress: Progress| app.jobs.progress(id, progress);
    let mut ended = work.evaluate(checked_out, job.batch(), told, app.stop.subscribe()).await;
    if let (Err(work::Ended::Unfit(reason)), Some(earlier)) = (&ended, &job.continues) {
        tracing::warn!(%earlier, "what an earlier job has left is of no use: {reason}");
        app.jobs.begin_anew(id);
        ended = work.evaluate(checked_out, id, told, app.stop.subscribe()).await;
    }
    match ended {
        Ok(state) => state,
        Err(work::Ended::Stopped) => {
            let progress = app.jobs.get(id).and_then(|job| match job.state {
                JobState::Running { progress } => Some(progress),
                _ => None,
            });
            JobState::Interrupted { progress }
        }
        Err(work::Ended::Failed(reason) | work::Ended::Unfit(reason)) => JobState::Failed { reason },
    }
}

async fn finish(app: &App, work: &Work, job: Job, taken: Taken, state: JobState) {
    match &state {
        JobState::Completed { pull_request, warnings, .. } => {
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            tracing::info!(pull_request, "job completed");
        }
        JobState::Failed { reason } => tracing::error!("job failed: {reason}"),
        state => tracing::warn!("job {}", state.word()),
    }
    // GitHub hears of jobs in the order in which they end.
    let _turn = app.telling.lock().await;
    app.jobs.set(&job.job_id, state.clone());
    drop(taken);
    if tokio::time::timeout(REPORT_WITHIN, failures::tell(work, &job, &state)).await.is_err() {
        tracing::error!("GitHub did not hear of it within {} s", REPORT_WITHIN.as_secs());
    }
}

/// Counts the threads at work, whatever becomes of them.
#[derive(Debug)]
struct Working(watch::Sender<usize>);

impl Working {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
