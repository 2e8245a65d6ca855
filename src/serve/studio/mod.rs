//! The studio: the page of the service, for people.
//!
//! `routes` says what is where, `page` is what stands around every screen, `html` keeps a stranger's words from becoming
//! markup. `login` and `session` let people in, `guard` keeps other sites out. A file a screen: `benchmarks` (with `syncs`, which
//! does the work), `jobs`, `leaderboard`, `runs` (with `shelf`, which finds them). Everything can be read and done without
//! JavaScript; with it, `script.js` asks `live` addresses for what has changed.

mod assets;
mod benchmarks;
mod guard;
mod html;
mod jobs;
mod leaderboard;
mod live;
mod login;
mod page;
mod routes;
mod runs;
mod session;
mod shelf;
mod syncs;

pub(super) use routes::routes;

use std::path::PathBuf;
use std::sync::Arc;

use self::leaderboard::Board;
use self::session::Sessions;
use self::shelf::Shelf;
use self::syncs::Syncs;
use super::App;
use crate::config::Env;

/// What the page shows.
#[derive(Debug, Clone, Default)]
pub struct StudioOptions {
    /// The registry of benchmarks; nothing for the usual one.
    pub registry: Option<PathBuf>,
    /// Whether benchmarks may come from this machine.
    pub allow_local: bool,
    /// The leaderboard.
    pub leaderboard: Option<PathBuf>,
    /// Where results are: directories, or commits of the repository here.
    pub runs: Vec<String>,
    /// Variables of the registry, and where tokens come from.
    pub env: Env,
}

/// What the page keeps between requests.
#[derive(Debug)]
pub struct Studio {
    sessions: Sessions,
    syncs: Arc<Syncs>,
    board: Board,
    shelf: Shelf,
}

impl Studio {
    /// An open studio.
    pub fn new(options: StudioOptions) -> Self {
        let StudioOptions { registry, allow_local, leaderboard, runs, env } = options;
        Self {
            sessions: Sessions::new(),
            syncs: Arc::new(Syncs::new(registry, allow_local, env)),
            board: Board::new(leaderboard),
            shelf: Shelf::new(runs),
        }
    }
}

/// What a screen has at hand.
#[derive(Debug, Clone)]
struct Desk {
    app: Arc<App>,
    studio: Arc<Studio>,
}
