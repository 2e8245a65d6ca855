//! Routes. Everything except signing in and static files needs a session.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use http::Uri;

use super::page::{missing, redirect};
use super::session::Session;
use super::{Desk, Studio, StudioOptions, assets, benchmarks, guard, jobs, leaderboard, login, runs};
use crate::serve::{App, Refusal};

/// The pages, to be merged into the service.
pub fn routes(app: &Arc<App>, options: StudioOptions) -> Router<Arc<App>> {
    let desk = Desk { app: Arc::clone(app), studio: Arc::new(Studio::new(options)) };
    let screens = Router::new()
        .route("/", reads(get(|| async { redirect("/studio") })))
        .route("/studio", reads(get(|| async { redirect("/studio/benchmarks") })))
        .route("/studio/", reads(get(|| async { redirect("/studio/benchmarks") })))
        .route("/studio/benchmarks", reads(get(benchmarks::show)))
        .route("/studio/benchmarks/sync", acts(post(benchmarks::sync_all)))
        .route("/studio/benchmarks/{id}/sync", acts(post(benchmarks::sync)))
        .route("/studio/live/benchmarks", reads(get(benchmarks::live)))
        .route(
            "/studio/jobs",
            get(jobs::list).post(jobs::order).fallback(|| async { Refusal::Method("GET, HEAD, POST") }),
        )
        .route("/studio/jobs/{id}", reads(get(jobs::show)))
        .route("/studio/jobs/{id}/cancel", acts(post(jobs::cancel)))
        .route("/studio/live/jobs", reads(get(jobs::live_list)))
        .route("/studio/live/jobs/{id}", reads(get(jobs::live_one)))
        .route("/studio/leaderboard", reads(get(leaderboard::show)))
        .route("/studio/leaderboard/{*path}", reads(get(leaderboard::part)))
        .route("/studio/runs", reads(get(runs::list)))
        .route("/studio/runs/compare", reads(get(runs::compare)))
        .route("/studio/runs/{id}", reads(get(runs::show)))
        .route("/studio/runs/{id}/report", reads(get(runs::report)))
        .route("/studio/{*rest}", get(nothing_here))
        .route_layer(from_fn_with_state(desk.clone(), guard::may_act));
    // A read-only session may sign out, and sign in again.
    Router::new()
        .route("/studio/login", reads(get(login::form)).post(login::sign_in))
        .route("/studio/logout", acts(post(login::sign_out)))
        .merge(screens)
        .merge(assets::routes())
        .with_state(desk)
}

fn reads(route: MethodRouter<Desk>) -> MethodRouter<Desk> {
    route.fallback(|| async { Refusal::Method("GET, HEAD") })
}

fn acts(route: MethodRouter<Desk>) -> MethodRouter<Desk> {
    route.fallback(|| async { Refusal::Method("POST") })
}

async fn nothing_here(State(_): State<Desk>, session: Session, uri: Uri) -> Response {
    missing(&session, None, &format!("There is nothing at `{}`.", uri.path()))
}
