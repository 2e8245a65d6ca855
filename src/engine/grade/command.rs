//! Runs a suite's own commands: each in its own process group, with limits on time and output, and without the environment
//! variables that contain keys.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::scoring::{GraderReply, Input};
use crate::util::process_group::ProcessGroup;
use crate::util::redact::Redactor;
use crate::util::{WorkDir, programs};

/// The most that a command may print.
const MOST_OUTPUT: usize = 1 << 20;
/// How much of the end of stderr is kept.
const KEPT_STDERR: usize = 2000;
/// How long to read output after the command itself has ended.
const AFTER_END: Duration = Duration::from_secs(1);

/// How to run commands.
#[derive(Debug)]
pub struct Commands {
    /// The time limit of one command.
    pub timeout: Duration,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Redacts secrets from its output.
    pub redactor: Redactor,
    /// The directory for long answers and compiled Python files, created by the first command.
    pub temporary: OnceLock<Result<WorkDir, String>>,
}

/// A command to run.
#[derive(Debug)]
pub(super) struct CommandJob {
    pub(super) argv: Vec<String>,
    pub(super) cwd: PathBuf,
    pub(super) input: Input,
}

/// Keeps commands from reading this process's keys in `/proc`, unless they run as root.
fn hide_own_environment() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
            tracing::debug!("cannot hide the environment: {error}");
        }
    }
}

impl Commands {
    /// The variables that every command may see: paths and network settings.
    pub const ENVIRONMENT: [&str; 24] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "LANG",
        "LC_ALL",
        "TZ",
        "CI",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "NODE_PATH",
        "JAVA_HOME",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
    ];

    /// Runs a command until it ends or times out.
    pub(super) async fn run(&self, job: CommandJob) -> GraderReply {
        match self.try_run(job).await {
            Ok(GraderReply::Ended { code, stdout, stderr }) => GraderReply::Ended {
                code,
                stdout: self.redactor.redact(stdout),
                // Only its end was kept.
                stderr: self.redactor.redact_part(stderr),
            },
            Ok(given) => given,
            Err(error) => GraderReply::Failed(self.redactor.redact(error)),
        }
    }

    async fn try_run(&self, job: CommandJob) -> Result<GraderReply, String> {
        let CommandJob { argv, cwd, input } = job;
        let Input { mut json, long_output } = input;
        let temporary = self.temporary.get_or_init(|| WorkDir::new().map_err(|error| error.to_string()));
        let temporary =
            temporary.as_ref().map_err(|error| format!("cannot create a temporary directory: {error}"))?;
        let mut file = None;
        if let Some(output) = long_output {
            let cannot = |error: std::io::Error| format!("cannot write the answer to a file: {error}");
            let mut answer = tempfile::Builder::new()
                .prefix("answer-")
                .suffix(".json")
                .tempfile_in(temporary.path())
                .map_err(cannot)?;
            answer.write_all(output.as_bytes()).map_err(cannot)?;
            json["output_path"] = answer.path().display().to_string().into();
            file = Some(answer);
        }
        hide_own_environment();
        let [program, arguments @ ..] = argv.as_slice() else {
            return Err("the command is empty".to_owned());
        };
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(&cwd)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("PATH", programs::path())
            // A `__pycache__` in a checkout or bundle can contain other code than the file next to it.
            .env("PYTHONPYCACHEPREFIX", temporary.path().join("pycache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start `{program}` in `{}`: {error}", cwd.display()))?;
        let group = ProcessGroup::of(&child);
        let (Some(mut stdin), Some(mut stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the command has no input or output".to_owned());
        };
        let bytes = format!("{json:#}").into_bytes();
        // A command may end without reading its input.
        let feed = async move {
            let _ = stdin.write_all(&bytes).await;
        };
        tokio::pin!(feed);
        let deadline = tokio::time::sleep(self.timeout);
        tokio::pin!(deadline);
        let (mut printed, mut told) = (Vec::new(), Vec::new());
        let (mut out, mut err) = (vec![0; 1 << 14], vec![0; 1 << 12]);
        let (mut is_fed, mut out_open, mut err_open, mut status) = (false, true, true, None);
        let group = std::cell::Cell::new(group);
        while status.is_none() || out_open || err_open {
            tokio::select! {
                () = &mut feed, if !is_fed => is_fed = true,
                read = stdout.read(&mut out), if out_open => match read {
                    Ok(count @ 1..) => {
                        printed.extend_from_slice(&out[..count]);
                        if printed.len() > MOST_OUTPUT {
                            return Err(format!("the command printed more than {} KiB and was killed", MOST_OUTPUT >> 10));
                        }
                    }
                    _ => out_open = false,
                },
                read = stderr.read(&mut err), if err_open => match read {
                    Ok(count @ 1..) => {
                        told.extend_from_slice(&err[..count]);
                        if told.len() > 4 * KEPT_STDERR {
                            told.drain(..told.len() - KEPT_STDERR);
                        }
                    }
                    _ => err_open = false,
                },
                ended = child.wait(), if status.is_none() => {
                    status = Some(ended.map_err(|error| format!("the command was lost: {error}"))?);
                    // Ends the processes that it left behind.
                    drop(group.take());
                    deadline.as_mut().reset(tokio::time::Instant::now() + AFTER_END);
                }
                () = &mut deadline => {
                    if status.is_some() {
                        break;
                    }
                    let seconds = self.timeout.as_secs_f64();
                    return Err(format!("the command did not finish within {seconds} s and was killed"));
                }
            }
        }
        drop(file);
        let told = &told[told.len().saturating_sub(KEPT_STDERR)..];
        let status = status.ok_or_else(|| "the command was lost".to_owned())?;
        let Some(code) = status.code() else { return Err(format!("the command was killed: {status}")) };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(GraderReply::Ended { code, stdout: text(&printed), stderr: text(told) })
    }
}
