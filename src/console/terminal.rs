//! The capabilities of stdout's terminal.

use std::io::IsTerminal as _;

use terminal_size::{Width, terminal_size_of};

/// The width of text that is not for a terminal.
const DEFAULT_WIDTH: usize = 120;
const NARROWEST: usize = 40;

/// The width of the terminal, else `COLUMNS`.
pub fn width() -> usize {
    let of_terminal = terminal_size_of(std::io::stdout()).map(|(Width(width), _)| usize::from(width));
    let named = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    of_terminal.or_else(named).unwrap_or(DEFAULT_WIDTH).max(NARROWEST)
}

/// Whether stdout is a terminal with colors, unless `NO_COLOR` is set.
pub fn shows_color() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}
