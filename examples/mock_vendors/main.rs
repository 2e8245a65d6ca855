//! Simulated vendors for keyless authentication: GitHub's identity provider, five strict token exchanges, and five APIs that
//! accept only what those issued.
//!
//! `options` is the command line, `identity` mints and verifies the tokens of a job, `exchanges` are the vendors' token endpoints,
//! `apis` their models, `sigv4` verifies signatures independently of the program, `state` is what they all know.

mod apis;
mod exchanges;
mod identity;
mod options;
mod sigv4;
mod state;

use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{any, get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use options::Options;
use state::World;

fn main() -> ExitCode {
    let result = options::parse(std::env::args().skip(1))
        .and_then(|options| run(options).map_err(|error| error.to_string()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(options: Options) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let world = Arc::new(World::new(options));
        // A plain thread, because the runtime would wait for its blocking tasks before it ends.
        std::thread::spawn(|| {
            let mut ignored = [0; 256];
            while matches!(io::stdin().read(&mut ignored), Ok(length) if length > 0) {}
            #[expect(clippy::exit, reason = "the test that started it has ended")]
            std::process::exit(0);
        });
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "listening on http://{address}")?;
        stdout.flush()?;
        drop(stdout);
        axum::serve(listener, router(world)).await
    })
}

fn router(world: Arc<World>) -> Router {
    Router::new()
        .route("/github/token", get(identity::mint))
        .route("/openai/oauth/token", post(exchanges::openai))
        .route("/anthropic/v1/oauth/token", post(exchanges::anthropic))
        .route("/azure/{tenant}/oauth2/v2.0/token", post(exchanges::azure))
        .route("/aws/", post(exchanges::aws))
        .route("/gcp/v1/token", post(exchanges::gcp))
        .route("/gcp/impersonate", post(exchanges::impersonate))
        .route("/openai/v1/chat/completions", post(apis::openai))
        .route("/openai/v1/models", get(apis::openai_models))
        .route("/anthropic/v1/messages", post(apis::anthropic))
        .route("/azure/openai/v1/chat/completions", post(apis::azure))
        .route("/bedrock/{*rest}", post(apis::bedrock))
        .route("/vertex/{*rest}", post(apis::vertex))
        .route("/redirected", any(redirected))
        .route("/counters", get(counters))
        .route("/served", get(served))
        .route("/secrets", get(secrets))
        .with_state(world)
}

async fn counters(State(world): State<Arc<World>>) -> axum::Json<Value> {
    let counts = &world.lock().counts;
    axum::Json(json!({
        "minted": counts.minted,
        "exchanges": counts.exchanges,
        "issued": counts.issued,
        "calls": counts.calls,
        "calls_during_exchange": counts.calls_during_exchange,
        "redirected": counts.redirected,
        "ok": counts.ok,
        "rejected": counts.rejected,
    }))
}

/// Where a redirect points. A request here is a followed redirect.
async fn redirected(State(world): State<Arc<World>>) {
    world.lock().counts.redirected += 1;
}

/// How often each message was answered.
async fn served(State(world): State<Arc<World>>) -> axum::Json<Value> {
    axum::Json(json!(world.lock().served))
}

/// Everything secret that was handed out, so that a test can look for it.
async fn secrets(State(world): State<Arc<World>>) -> axum::Json<Value> {
    let known = world.lock();
    axum::Json(known.secrets.iter().chain(&known.signatures).cloned().collect::<Vec<_>>().into())
}
