//! A simulated GitHub, for tests: stateful, over HTTP, with real git repositories, and workflows that really run.
//!
//! `world` is its state. The REST API is `api` (common to all requests) and `repos`, `workflows`, `runs`, `artifacts`,
//! `history`, `issues`, `pulls`, `account`, validated against GitHub's own description by `openapi`. `git_http` is git, `results_service` the artifacts of jobs,
//! `executor` runs dispatched workflows, `faults` are deliberate failures, and `control`, which speaks `wire`, is for the tests.

mod account;
mod api;
mod artifacts;
mod auth;
mod control;
mod executor;
mod expression;
mod faults;
mod git;
mod git_http;
mod history;
mod issues;
mod limits;
mod openapi;
mod options;
mod pkt_line;
mod pulls;
mod push_rules;
mod reply;
mod reports;
mod repos;
mod results_service;
mod run;
mod runs;
mod settings;
mod shapes;
mod tls;
mod wire;
mod workflow_file;
mod workflows;
mod world;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum_server::tls_rustls::RustlsConfig;
use clap::Parser as _;
use tokio::sync::Notify;

use options::Options;
use wire::Ready;
use world::World;

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    match runtime.block_on(serve(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "error: {error:#}");
    ExitCode::FAILURE
}

async fn serve(mut options: Options) -> anyhow::Result<()> {
    std::fs::create_dir_all(&options.dir).context("cannot create the directory")?;
    options.dir = options.dir.canonicalize()?;
    let main = bind(options.port)?;
    let results = bind(options.results_port)?;
    let control = bind(0)?;
    let ca_file = options.dir.join("ca.pem");
    let tls = if options.tls { Some(tls::certify(&ca_file).await?) } else { None };
    let scheme = if options.tls { "https" } else { "http" };
    let server_url = format!("{scheme}://{}", main.local_addr()?);
    let urls = Ready {
        api_url: if options.tls { format!("{server_url}/api/v3") } else { server_url.clone() },
        control_url: format!("http://{}", control.local_addr()?),
        // By name, so that even clients that compare hosts without ports see another one.
        results_url: format!("{scheme}://localhost:{}", results.local_addr()?.port()),
        ca_file: tls.is_some().then(|| ca_file.display().to_string()),
        server_url,
    };
    let exit_with_stdin = options.exit_with_stdin;
    let world = Arc::new(World::new(options, urls)?);
    let end = Arc::new(Notify::new());
    if exit_with_stdin {
        end_with_stdin(Arc::clone(&end));
    }
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{}", serde_json::to_string(&world.urls)?)?;
    stdout.flush()?;
    drop(stdout);
    let served = tokio::select! {
        served = listen(main, tls.clone(), main_routes(&world)) => served,
        served = listen(results, tls, results_service::routes().with_state(Arc::clone(&world))) => served,
        served = listen(control, None, control::routes().with_state(Arc::clone(&world))) => served,
        () = end.notified() => Ok(()),
    };
    executor::end_all(&world);
    served
}

fn bind(port: u16) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("cannot listen on port {port}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

async fn listen(listener: TcpListener, tls: Option<RustlsConfig>, router: Router) -> anyhow::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    match tls {
        Some(config) => axum_server::from_tcp_rustls(listener, config)?.serve(service).await?,
        None => axum_server::from_tcp(listener)?.serve(service).await?,
    }
    Ok(())
}

/// The API, at the root or under `/api/v3`, and git.
fn main_routes(world: &Arc<World>) -> Router {
    let serve = middleware::from_fn_with_state(Arc::clone(world), api::serve);
    let rest = Router::new()
        .merge(repos::routes())
        .merge(workflows::routes())
        .merge(runs::routes())
        .merge(artifacts::routes())
        .merge(history::routes())
        .merge(issues::routes())
        .merge(pulls::routes())
        .merge(reports::routes())
        .merge(settings::routes())
        .merge(account::routes());
    let graphql = Router::new().route("/graphql", post(account::graphql));
    let routes = if world.options.tls {
        let rest = rest.fallback(unknown).layer(serve.clone());
        Router::new().nest("/api/v3", rest).nest("/api", graphql.layer(serve))
    } else {
        rest.merge(graphql).fallback(unknown).layer(serve)
    };
    // Git requests are recognized by their paths, which no pattern of the router can express.
    let git = middleware::from_fn_with_state(Arc::clone(world), git_first);
    routes.layer(git).with_state(Arc::clone(world))
}

async fn unknown() -> Response {
    reply::Refused::not_found().into_response()
}

async fn git_first(State(world): State<Arc<World>>, request: Request, next: middleware::Next) -> Response {
    if git_http::is_git(request.uri().path()) {
        git_http::serve(world, request).await
    } else {
        next.run(request).await
    }
}

/// A plain thread, because the runtime would wait for its blocking tasks before it ends.
fn end_with_stdin(end: Arc<Notify>) {
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut ignored = [0; 256];
        while matches!(stdin.read(&mut ignored), Ok(length) if length > 0) {}
        end.notify_one();
    });
}
