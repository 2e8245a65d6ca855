//! Benchmarks that come from git: a registry names them, `sync` brings them up to date, and nothing else changes them.
//!
//! `registry` reads `benchmarks.yaml` (with `entry`) and AgentV's own `projects:` (`agentv`); `address` says which URLs are allowed and
//! where the token may go. `update` is one sync: it takes the `lock`, looks at the clone (`view`), asks the other side (`upstream`),
//! and where that is a fast-forward it makes a replica beside the clone (`stage`), updates that (`fill`, with a `config` of our own, for submodules too: `modules`; `save` keeps what `--reset` gives up) and exchanges
//! the two in one step (`exchange`; `inventory` finds what came into the clone meanwhile). Whatever else it finds it refuses (`failure`), with the command that resolves it. `record` is
//! what a clone knows of its last sync, `state` what the registry's directory does (with the `history` of syncs); `status` tells it all. `register` adds a benchmark to
//! AgentV's own registry. `outcome` syncs several benchmarks at once, and `render` has the tables of the command.

mod address;
mod agentv;
mod checkout;
mod clone_state;
mod config;
mod entry;
mod exchange;
mod failure;
mod history;
mod inventory;
mod lock;
mod modules;
mod outcome;
mod record;
mod register;
mod registry;
mod render;
mod save;
mod staging_dir;
mod state;
mod status;
mod step;
mod update;
mod upstream;

pub use failure::Failure;
pub use history::{CommitInfo, SyncRecord};
pub use outcome::{Outcome, for_each};
pub use register::{Registered, register};
pub use registry::{Benchmark, Registry};
pub use render::Table;
pub use status::{Status, status};
pub use step::Step;
pub use update::{Change, Options, Synced, sync_one};
