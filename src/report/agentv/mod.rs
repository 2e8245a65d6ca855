//! Answers as AgentV reads them: as fixtures that its `replay` provider plays (`replay`), and as the file that its CLI provider
//! takes from a command (`answers`), and as a run directory with scores (`run`).

mod answers;
mod replay;
mod run;

pub use answers::{answer_line, failed_line, test_of_output_file};
pub use replay::{ReplaySuite, replay_fixture};
pub use run::{AgentvRun, AgentvTarget, render_run};
