//! The page of the service, through its port and without a browser: who gets in, what may be pressed, and what is shown.

mod forms;
mod headers;
mod hostile;
mod leaderboard;
mod scene;
mod screens;
mod sessions;
mod visitor;
