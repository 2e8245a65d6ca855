//! Skills: `evaluate` turns a request into leaderboard entries and a pull request, on the command line and in the service; `lint` checks
//! how skills are scored; `trigger`
//! finds skills with a version bump and requests their evaluation from the service.

pub mod evaluate;
pub mod lint;
pub mod trigger;
