//! The git command line, wrapped; the only place that runs git.
//!
//! `command` starts git so that nothing of the user's environment, configuration or hooks plays a part. `Repository` is a
//! bare repository on disk: `objects` reads from it through one long-lived process, `commit` adds to a branch through
//! one short process per commit. `remote` exchanges branches with a repository on another machine, and `access` asks what it allows. `history` is for a
//! clone that somebody keeps. A process costs some milliseconds, so there are few.

mod access;
mod command;
mod commit;
mod history;
mod objects;
mod remote;
mod repository;
mod worktree;

pub use access::may_push;
pub use command::GitError;
pub use commit::{Committed, NewFile};
pub use history::{EntryKind, TreeEntry, check_out_apart, fast_forward};
pub use objects::ObjectId;
pub use remote::{Pushed, Remote, fetch_files};
pub use repository::Repository;
pub use worktree::{Worktree, resolve_ref};
