//! The git command line, wrapped; the only place that runs git.
//!
//! `command` starts git so that nothing of the user's environment, configuration or hooks plays a part. `Repository` is a
//! bare repository on disk: `objects` reads from it through one long-lived process, `commit` adds to a branch through
//! one short process per commit. `remote` exchanges branches with a repository on another machine, and `access` asks what it
//! allows. `history` is for a clone that somebody keeps, `place` is a clone with a work tree that `sync` keeps, and `reach` how its
//! origin is reached. A process costs some milliseconds, so there are few.

mod access;
mod command;
mod commit;
mod history;
mod objects;
mod place;
mod reach;
mod remote;
mod repository;
mod times;
mod worktree;

pub use access::may_push;
pub use command::GitError;
pub use commit::{Committed, NewFile};
pub use history::{EntryKind, TreeEntry, fast_forward};
pub use objects::ObjectId;
pub use place::{LFS_FILTER, Place, config_file, harmless, set_config};
pub use reach::Reach;
pub use remote::{Pushed, Remote, fetch_files};
pub use repository::Repository;
pub use times::commit_times;
pub use worktree::{Worktree, resolve_ref};
