//! Skills: `evaluate` turns an order into leaderboard entries and a pull request, on the command line and in the service; `lint` checks
//! how skills are scored; `trigger`
//! finds skills whose version rose and asks the service for their evaluation.

pub mod evaluate;
pub mod lint;
pub mod trigger;
