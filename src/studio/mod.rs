//! The studio: the page of the service, for people.
//!
//! `routes` says what is where, `templates` has the markup, `page` is what all screens share, `format` is how values are shown. Templates
//! escape every value (`report::Markup`). `login` and `session` let people in, `guard` keeps other sites out. Each screen has a file:
//! `benchmarks` (with `syncs`, which does the work), `jobs`, `leaderboard`, `runs` (with `runs_index`, which finds them, and `trend`). Everything can be
//! read and done without JavaScript; with it, `script.js` asks `live` addresses for what has changed.

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

/// What the page shows.
#[derive(Debug, Clone, Default)]
pub struct StudioOptions {
    /// The registry of benchmarks; nothing for the usual one.
    pub registry: Option<PathBuf>,
    /// Whether benchmarks may come from this machine.
    pub allow_local: bool,
    /// The leaderboard, if it is not the library's.
    pub leaderboard: Option<PathBuf>,
    /// The skill library, where evaluations can be ordered.
    pub library: Option<PathBuf>,
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

/// What a screen has at hand.
#[derive(Debug, Clone)]
struct Desk {
    app: Arc<App>,
    studio: Arc<Studio>,
}
