//! Results in AgentV's formats: fixtures for its `replay` provider (`replay`), the output file of its CLI provider (`answers`), and
//! a run directory with scores (`run`).

mod replay;
mod responses;
mod run;

pub use replay::{ReplaySuite, replay_fixture};
pub use responses::{answer_line, failed_line, test_of_output_file};
pub use run::{AgentvRun, AgentvTarget, render_run};
