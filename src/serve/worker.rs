//! Runs a service job on its own thread and runtime, so that jobs and requests do not slow each other down.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use super::app::App;
use super::error::Refusal;
use super::evaluation::{self, CheckedOut, EvaluationRequest, Evaluator};
use super::failures;
use super::jobs::{JobId, JobState, ServiceJob, SlotGuard};
use crate::skills::evaluate::{Progress, RunProgress};

/// Time limit for reporting to GitHub.
const REPORT_WITHIN: Duration = Duration::from_mins(1);
const OUR_FAULT: &str = "internal error of the service; see its log";

/// The response to the request: the job, or why there is none.
pub(super) type Reply = oneshot::Sender<Result<JobId, Refusal>>;

/// Starts a job. The reply is sent when git has responded.
pub(super) fn begin(
    app: &Arc<App>,
    evaluator: &Arc<Evaluator>,
    order: EvaluationRequest,
    started_at: Timestamp,
    taken: SlotGuard,
    reply: Reply,
) {
    let job = ServiceJob::new(JobId::new(started_at), order, started_at);
    start(app, evaluator, job, taken, Some(reply));
}

/// Resumes interrupted jobs, one after the other, until the service stops.
pub(super) async fn resume(app: Arc<App>, evaluator: Arc<Evaluator>, jobs: Vec<ServiceJob>) {
    for job in jobs {
        loop {
            app.slot.is_free().await;
            match app.slot.take(&job.order.skill, job.started_at) {
                Ok(taken) => {
                    if app.jobs.requeue(&job.job_id) {
                        start(&app, &evaluator, job, taken, None);
                    }
                    break;
                }
                Err(super::jobs::SlotError::Busy(_)) => {}
                Err(super::jobs::SlotError::Closed) => return,
            }
        }
    }
}

fn start(
    app: &Arc<App>,
    evaluator: &Arc<Evaluator>,
    job: ServiceJob,
    taken: SlotGuard,
    reply: Option<Reply>,
) {
    let (app, evaluator) = (Arc::clone(app), Arc::clone(evaluator));
    let working = WorkerCount::new(&app.working);
    let begun = std::thread::Builder::new().name("job".to_owned()).spawn(move || {
        let (id, app) = (job.job_id.clone(), app);
        let span = tracing::info_span!("job", job = %id);
        let _entered = span.clone().entered();
        let on_thread = AssertUnwindSafe(|| on_thread(&app, &evaluator, job, taken, reply, &span));
        // A failure after the end of the job does not change its state.
        if catch_unwind(on_thread).is_err() && app.jobs.get(&id).is_some_and(|job| job.state.is_open()) {
            app.jobs.set(&id, JobState::Failed { reason: OUR_FAULT.to_owned() });
        }
        drop(working);
    });
    if let Err(error) = begun {
        // Everything moved into the thread is dropped: the slot is free, the reply is closed.
        tracing::error!("cannot start a thread: {error}");
    }
}

fn on_thread(
    app: &App,
    evaluator: &Evaluator,
    job: ServiceJob,
    taken: SlotGuard,
    reply: Option<Reply>,
    span: &tracing::Span,
) {
    let span = span.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Blocking threads log with the job's span too.
        .on_thread_start(move || std::mem::forget(span.clone().entered()))
        .build();
    match runtime {
        Ok(runtime) => {
            runtime.block_on(async {
                Box::pin(run(app, evaluator, job, taken, reply)).await;
                if let Err(error) = evaluator.tidy(&app.jobs) {
                    tracing::warn!("cannot delete data of old jobs: {error:#}");
                }
            });
            // A hanging git must not block the thread.
            runtime.shutdown_background();
        }
        Err(error) => tracing::error!("cannot start a runtime: {error}"),
    }
}

async fn run(app: &App, evaluator: &Evaluator, mut job: ServiceJob, taken: SlotGuard, reply: Option<Reply>) {
    let is_new = reply.is_some();
    let checked_out = evaluator.check_out(&job.order).await;
    if reply.as_ref().is_some_and(Reply::is_closed) {
        tracing::warn!("the client disconnected: nothing was started");
        return;
    }
    let (checked_out, outcome) = match checked_out {
        Ok(checked_out) => (Some(checked_out), None),
        Err(evaluation::StartRefusal::Answer(refusal)) => {
            return refused(app, evaluator, job, taken, reply, refusal).await;
        }
        Err(evaluation::StartRefusal::Job(reason)) => (None, Some(JobState::Failed { reason })),
    };
    if let Some(checked_out) = &checked_out {
        job.order.pinned = Some(checked_out.pinned().clone());
        if is_new {
            // Reuse responses that an earlier job has paid for.
            let earlier = app.jobs.last_of(&job.order).map(|earlier| earlier.batch().clone());
            job.continues = earlier.filter(|batch| checked_out.finds(batch));
        }
    }
    if is_new && let Err(error) = app.jobs.add(job.clone()) {
        tracing::error!("{error:#}");
        if let Some(reply) = reply {
            drop(taken);
            let _ = reply.send(Err(Refusal::Unavailable("the service could not record the job".to_owned())));
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
        (None, Some(checked_out)) => Box::pin(evaluate(app, evaluator, &job, &checked_out)).await,
        (None, None) => JobState::Failed { reason: OUR_FAULT.to_owned() },
    };
    finish(app, evaluator, job, taken, outcome).await;
}

/// Rejects the request. A job that was to be resumed ends, or waits for the next start.
async fn refused(
    app: &App,
    evaluator: &Evaluator,
    job: ServiceJob,
    taken: SlotGuard,
    reply: Option<Reply>,
    refusal: Refusal,
) {
    if let Some(reply) = reply {
        let (skill, status) = (job.order.skill.as_str(), refusal.status().as_u16());
        tracing::warn!(skill, status, "refused: {}", refusal.reason());
        // Free the slot before replying, so that the client finds it free.
        drop(taken);
        let _ = reply.send(Err(refusal));
        return;
    }
    let state = match refusal {
        // A network that is still down after a power cut must not drop paid responses.
        Refusal::Unavailable(reason) => {
            tracing::warn!("not resumed: {reason}");
            app.jobs.get(&job.job_id).as_ref().unwrap_or(&job).without_result()
        }
        refusal => JobState::Failed { reason: refusal.reason() },
    };
    finish(app, evaluator, job, taken, state).await;
}

async fn evaluate(app: &App, evaluator: &Evaluator, job: &ServiceJob, checked_out: &CheckedOut) -> JobState {
    let id = &job.job_id;
    app.jobs.set(id, JobState::Running { progress: Progress { done: 0, total: 0 } });
    let told = |progress: &RunProgress| app.jobs.set_progress(id, progress);
    let is_cancelled = || app.jobs.is_cancelled(id);
    let stop = watch::Sender::new(is_cancelled());
    let work = async {
        let mut ended =
            evaluator.evaluate(checked_out, job.batch(), told, stop.subscribe(), is_cancelled).await;
        if let (Err(evaluation::EvaluationEnd::Unfit(reason)), Some(earlier)) = (&ended, &job.continues) {
            tracing::warn!(%earlier, "cannot reuse the responses of an earlier job: {reason}");
            app.jobs.begin_anew(id);
            ended = evaluator.evaluate(checked_out, id, told, stop.subscribe(), is_cancelled).await;
        }
        ended
    };
    let ended = tokio::select! {
        ended = work => ended,
        never = stop_when_told(app, id, &stop) => match never {},
    };
    match ended {
        Ok(state) => state,
        Err(evaluation::EvaluationEnd::Stopped) => app.jobs.get(id).as_ref().unwrap_or(job).without_result(),
        Err(evaluation::EvaluationEnd::Failed(reason) | evaluation::EvaluationEnd::Unfit(reason)) => {
            JobState::Failed { reason }
        }
    }
}

/// Stops the calls of a job when it is cancelled, or when the service stops.
async fn stop_when_told(app: &App, id: &JobId, stop: &watch::Sender<bool>) -> std::convert::Infallible {
    let mut service = app.stop.subscribe();
    tokio::select! {
        () = app.jobs.cancelled(id) => {}
        _ = service.wait_for(|stop| *stop) => {}
    }
    stop.send_replace(true);
    std::future::pending().await
}

async fn finish(app: &App, evaluator: &Evaluator, job: ServiceJob, taken: SlotGuard, state: JobState) {
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
    // While the slot is held, no other job uses the clones.
    if let Err(error) = evaluator.maintain() {
        tracing::warn!("cannot maintain the clones: {error:#}");
    }
    // Report jobs to GitHub in the order in which they end.
    let _turn = app.reporting.lock().await;
    app.jobs.set(&job.job_id, state.clone());
    drop(taken);
    tell(evaluator, &job, &state).await;
}

/// Reports jobs that ended without their own thread: interrupted by a crash, or not stopped in time.
pub(super) async fn report(app: Arc<App>, evaluator: Arc<Evaluator>, jobs: Vec<ServiceJob>) {
    for job in jobs {
        let _turn = app.reporting.lock().await;
        tell(&evaluator, &job, &job.state).await;
    }
}

async fn tell(evaluator: &Evaluator, job: &ServiceJob, state: &JobState) {
    if tokio::time::timeout(REPORT_WITHIN, failures::tell(evaluator, job, state)).await.is_err() {
        tracing::error!("reporting the job to GitHub timed out after {} s", REPORT_WITHIN.as_secs());
    }
}

/// Counts running threads, even if they panic.
#[derive(Debug)]
struct WorkerCount(watch::Sender<usize>);

impl WorkerCount {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for WorkerCount {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
