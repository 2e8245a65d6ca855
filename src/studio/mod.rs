//! The studio: the web pages of the service.
//!
//! `routes` has the URLs, `templates` the markup, `page` what all screens share, `format` formats values. Templates
//! escape every value (`report::Markup`). `login` and `session` authenticate users, `guard` rejects requests from other sites. Each screen has a file:
//! `benchmarks` (with `syncs`, which does the work), `jobs`, `leaderboard`, `runs` (with `runs_index`, which finds them, and `trend`). Everything works
//! without JavaScript; with it, `script.js` polls `live` URLs for changes.

mod assets;
mod benchmarks;
mod format;
mod guard;
mod jobs;
mod leaderboard;
mod live;
mod login;
mod page;
mod routes;
mod runs;
mod runs_index;
mod session;
mod syncs;
mod trend;

pub use routes::routes;

use std::path::PathBuf;
use std::sync::Arc;

use self::leaderboard::Board;
use self::runs_index::RunsIndex;
use self::session::Sessions;
use self::syncs::Syncs;
use crate::config::Env;
use crate::serve::App;

/// The options of the pages.
#[derive(Debug, Clone, Default)]
pub struct StudioOptions {
    /// The registry of benchmarks; by default the usual one.
    pub registry: Option<PathBuf>,
    /// Whether benchmarks may come from this machine.
    pub allow_local: bool,
    /// The leaderboard, if it is not the library's.
    pub leaderboard: Option<PathBuf>,
    /// The skill library, which allows requesting evaluations.
    pub library: Option<PathBuf>,
    /// The results to list: directories, or branches of the local repository.
    pub runs: Vec<String>,
    /// The environment of the registry, with tokens.
    pub env: Env,
}

/// The state between requests.
#[derive(Debug)]
pub struct Studio {
    sessions: Sessions,
    syncs: Arc<Syncs>,
    board: Board,
    library: Option<PathBuf>,
    shelf: RunsIndex,
}

impl Studio {
    /// An open studio.
    pub fn new(options: StudioOptions) -> Self {
        let StudioOptions { registry, allow_local, leaderboard, library, runs, env } = options;
        Self {
            sessions: Sessions::new(),
            syncs: Arc::new(Syncs::new(registry, allow_local, env)),
            board: Board::new(leaderboard, library.as_deref()),
            library,
            shelf: RunsIndex::new(runs),
        }
    }
}

/// The state available to a screen.
#[derive(Debug, Clone)]
struct Desk {
    app: Arc<App>,
    studio: Arc<Studio>,
}
