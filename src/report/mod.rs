//! Reports for people and programs.
//!
//! `summary` is `summary.json`; if nothing is graded, `table` and `markdown` show its calls. `results` reads an output directory,
//! and its evaluation is shown by `terminal`, by `verdict` (markdown) and `comment` (on a pull request), by `notes` (at
//! the lines of the suite), `outputs` (of a step), `junit` and `html`. They share `cells` for the figures, `columns` for tables that fit a terminal, and `reason` for why a test did not pass; `text` makes
//! untrusted text safe for each format.
//! `chart` is the geometry of charts, here and in the studio. `agentv` has AgentV's formats. `statement` records how results were made.

pub mod agentv;
mod cells;
mod chart;
pub(crate) mod columns;
mod comment;
mod html;
mod junit;
mod lines;
mod markdown;
mod notes;
mod outputs;
mod reason;
mod results;
mod statement;
mod summary;
mod table;
mod terminal;
mod text;
mod verdict;

pub use chart::{ACROSS, DOWN, Px, Scale, Tick, number};
pub use comment::render_comment;
pub use html::{PALETTE, html_policy, render_html};
pub use junit::render_junit;
pub use markdown::render_markdown;
pub use notes::{LineNote, line_notes};
pub use outputs::{call_errors_output, call_outputs, evaluation_outputs};
pub use results::{REPORT_FILE, RESULT_FILES, Results};
pub use statement::{
    LEADERBOARD_TYPE, Origin, PREDICATE_FILE, RESULTS_TYPE, ResultsPredicate, STATEMENT_FILE, Statement,
    Subject,
};
pub use summary::{FailureGroup, GraderUse, ModelSummary, Summary, TargetSummary};
pub use table::render_table;
pub use terminal::{Footer, Style, render_evaluation};
pub use text::{Markup, ScriptData};
pub use verdict::{LONGEST_SUMMARY, render_verdict};
