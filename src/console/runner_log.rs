//! Whether the Actions runner reads stderr.
//!
//! A mask command contains the secret, and the runner removes it from the log. Any other reader of stderr
//! would keep the secret: a file, a terminal, or another command of the step such as `tee`.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::fs::{FileType, fstat};

/// Programs that capture stderr for a variable or a pipeline; the runner is none of them.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "pwsh"];

/// Whether stderr goes only to the runner, as far as this process can tell.
pub(super) fn is_stderr() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        // Every workflow run has an id. People who imitate Actions usually set `GITHUB_ACTIONS=true` alone.
        let is_workflow = std::env::var_os("GITHUB_RUN_ID").is_some_and(|id| !id.is_empty());
        is_workflow && is_pipe_to_runner()
    })
}

/// The runner reads through a pipe. It started this process or is outside of its container, so a visible
/// reader must be an ancestor and not a shell.
fn is_pipe_to_runner() -> bool {
    let Ok(stat) = fstat(std::io::stderr()) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => true,
        FileType::Fifo => {
            let pipe = format!("pipe:[{}]", stat.st_ino);
            let mut readers = readers(&pipe);
            if readers.is_empty() {
                // A shell may have handed the pipe to a program that started during the search.
                readers = self::readers(&pipe);
            }
            let ancestors = ancestors();
            let is_ancestor = |reader: &Reader| ancestors.contains(&reader.process);
            // A forked ancestor holds the pipe for a moment before it executes another program.
            let is_copy = |reader: &Reader| {
                readers.iter().any(|other| is_ancestor(other) && other.program == reader.program)
            };
            readers.iter().all(|reader| !reader.is_shell() && (is_ancestor(reader) || is_copy(reader)))
        }
        _ => false,
    }
}

/// A process that holds the read end of a pipe.
struct Reader {
    process: u32,
    program: Option<PathBuf>,
}

impl Reader {
    fn is_shell(&self) -> bool {
        let name = self.program.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
        name.is_some_and(|name| SHELLS.contains(&name))
    }
}

/// Visible processes with the read end of a pipe; none without `/proc`.
fn readers(pipe: &str) -> Vec<Reader> {
    let mut found = Vec::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if process == std::process::id() {
            continue;
        }
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let reads = files
            .filter(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == pipe))
            .any(|file| {
                let info = format!("/proc/{process}/fdinfo/{}", file.file_name().to_string_lossy());
                fs::read_to_string(info).is_ok_and(|info| is_open_for_reading(&info))
            });
        if reads {
            let program = fs::read_link(format!("/proc/{process}/exe")).ok();
            found.push(Reader { process, program });
        }
    }
    found
}

/// The two lowest flag bits are the access mode: 0 is read-only.
fn is_open_for_reading(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags % 4 == 0)
}

fn ancestors() -> Vec<u32> {
    let mut found = Vec::new();
    let mut process = std::process::id();
    while let Some(parent) = parent(process).filter(|parent| *parent > 0 && !found.contains(parent)) {
        found.push(parent);
        process = parent;
    }
    found
}

fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program name is in parentheses and may contain some itself.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_file_are_octal() {
        assert!(is_open_for_reading("pos:\t0\nflags:\t0100000\nmnt_id:\t15\n"));
        assert!(!is_open_for_reading("pos:\t0\nflags:\t0100001\n"));
        assert!(!is_open_for_reading("pos:\t0\nflags:\t02\n"));
        assert!(!is_open_for_reading(""));
    }
}
