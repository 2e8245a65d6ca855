//! Finds the AgentV that started this process: it starts one per call, through a shell, and all its calls belong together.

use std::path::Path;
use std::process::Command;

use crate::util::programs;

/// Programs between AgentV and this process that live no longer than one call.
const WRAPPERS: [&str; 26] = [
    "ash",
    "aws-vault",
    "bash",
    "busybox",
    "chrt",
    "dash",
    "direnv",
    "doas",
    "dotenv",
    "env",
    "fish",
    "ionice",
    "ksh",
    "mise",
    "mksh",
    "nice",
    "nohup",
    "op",
    "script",
    "setsid",
    "sh",
    "stdbuf",
    "sudo",
    "time",
    "timeout",
    "zsh",
];
/// Bounds the search: a process table that changes while it is read must not block a call.
const MOST_ANCESTORS: usize = 32;

/// A process. Its number may be reused later, but not together with its start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Only for comparison.
    pub(super) started: String,
}

/// A process as the system reports it.
struct ProcessInfo {
    parent: u32,
    started: String,
    name: String,
}

impl Process {
    /// The nearest ancestor that is not a wrapper; the outermost wrapper if there is none, as in a container.
    pub(super) fn caller() -> Option<Self> {
        let mut pid = std::os::unix::process::parent_id();
        let mut found = None;
        for _ in 0..MOST_ANCESTORS {
            let Some(entry) = look_up(pid) else { break };
            found = Some(Self { pid, started: entry.started });
            if !WRAPPERS.contains(&base_name(&entry.name)) {
                break;
            }
            pid = entry.parent;
        }
        found
    }

    /// Whether it still runs.
    pub(super) fn is_alive(&self) -> bool {
        look_up(self.pid).is_some_and(|entry| entry.started == self.started)
    }
}

fn look_up(pid: u32) -> Option<ProcessInfo> {
    if pid == 0 {
        return None;
    }
    if Path::new("/proc/self/stat").exists() { from_proc(pid) } else { from_ps(pid) }
}

fn from_proc(pid: u32) -> Option<ProcessInfo> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state parent …`; the name may contain anything.
    let stat = String::from_utf8_lossy(&stat);
    let (before, rest) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let (state, parent, started) = (fields.first()?, fields.get(1)?, fields.get(19)?);
    // A zombie does nothing more.
    let lives = !matches!(*state, "Z" | "X");
    lives.then_some(ProcessInfo { parent: parent.parse().ok()?, started: (*started).to_owned(), name })
}

/// The same without `/proc`, as on macOS.
fn from_ps(pid: u32) -> Option<ProcessInfo> {
    let columns = ["-o", "ppid=", "-o", "lstart=", "-o", "comm="];
    let mut command = Command::new("ps");
    command.args(columns).arg("-p").arg(pid.to_string()).env("LC_ALL", "C").env("PATH", programs::path());
    let output = command.output();
    let text = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    // The start is five words: `Tue Nov 17 08:40:01 2026`.
    let (parent, started, name) = (words.first()?, words.get(1..6)?, words.get(6..)?);
    Some(ProcessInfo { parent: parent.parse().ok()?, started: started.join("-"), name: name.join(" ") })
}

/// `/bin/sh` and the `-sh` of a login shell are `sh`.
fn base_name(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.strip_prefix('-').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sources_agree_on_a_process() {
        let own = std::process::id();
        let (proc, ps) = (from_proc(own).unwrap(), from_ps(own).unwrap());
        assert_eq!(proc.parent, ps.parent);
        assert_eq!(proc.parent, std::os::unix::process::parent_id());
        assert!(!proc.started.is_empty() && !ps.started.is_empty());
        // The system truncates long names.
        assert!(base_name(&ps.name).starts_with(&proc.name) || proc.name.starts_with(base_name(&ps.name)));
    }

    #[test]
    fn a_process_that_ended_is_not_alive() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let started = look_up(child.id()).unwrap().started;
        let process = Process { pid: child.id(), started };
        assert!(process.is_alive());
        let namesake = Process { started: "another".to_owned(), ..process.clone() };
        assert!(!namesake.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!process.is_alive());
    }

    #[test]
    fn shells_are_recognized_by_their_base_name() {
        assert_eq!(base_name("/bin/sh"), "sh");
        assert_eq!(base_name("-zsh"), "zsh");
        assert_eq!(base_name("node"), "node");
    }
}
