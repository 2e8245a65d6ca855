//! The log: one JSON object per line, one file per day; old files are deleted.

use std::fmt::Debug;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::peer::Peer;
use crate::console::stderr;
use crate::model::Failure;
use crate::util::truncate::truncate;

const PREFIX: &str = "serve-";
const SUFFIX: &str = ".jsonl";
/// The longest path that is logged.
const LONGEST: usize = 200;

/// What is logged, and where.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// The destination.
    pub to: LogTo,
    /// Whether to log debug events.
    pub verbose: bool,
}

/// The destination of the log.
#[derive(Debug, Clone)]
pub enum LogTo {
    /// Files in a directory.
    Files {
        /// The directory.
        dir: PathBuf,
        /// How many days are kept.
        keep_days: u32,
    },
    /// Stderr.
    Stderr,
}

/// Starts the log, once per process.
pub(super) fn start(options: &LogOptions) -> Result<(), Failure> {
    let sink = match &options.to {
        LogTo::Files { dir, keep_days } => Some(Files::open(dir, *keep_days, today())?),
        LogTo::Stderr => None,
    };
    let default = if options.verbose { "run_evals=debug" } else { "run_evals=info" };
    let filter = EnvFilter::try_from_env("RUN_EVALS_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let layer = JsonLines { files: sink.map(Mutex::new) };
    // A process can have only one log: keep the first.
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    std::panic::set_hook(Box::new(|panic| tracing::error!("panic: {panic}")));
    Ok(())
}

/// The layer that logs requests without authentication, at debug level.
pub(super) async fn request(Peer(peer): Peer, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), short(request.uri().path()));
    let response = next.run(request).await;
    tracing::debug!(%peer, %method, path, status = response.status().as_u16(), "answered");
    response
}

/// The text, truncated if it is long.
pub(super) fn short(text: &str) -> String {
    truncate(text, LONGEST)
}

/// Writes each event as a line with the fields of its spans, so that every line of a job names the job.
struct JsonLines {
    files: Option<Mutex<Files>>,
}

struct Fields(Map<String, Value>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Fields(Map::new());
        line.0.insert("time".to_owned(), Timestamp::now().to_string().into());
        line.0.insert("level".to_owned(), event.metadata().level().as_str().to_ascii_lowercase().into());
        line.0.insert("message".to_owned(), Value::Null);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<Fields>() {
                line.0.extend(fields.0.clone());
            }
        }
        event.record(&mut line);
        let mut text = Value::Object(line.0).to_string();
        text.push('\n');
        let written = self
            .files
            .as_ref()
            .map(|files| files.lock().unwrap_or_else(PoisonError::into_inner).write(&text, today()));
        // Keep logging when the disk is full.
        if !matches!(written, Some(Ok(()))) {
            stderr(&text);
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.0.insert(field.name().to_owned(), u64::try_from(value).unwrap_or(u64::MAX).into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }
}

/// The file of the current day.
struct Files {
    dir: PathBuf,
    keep_days: u32,
    day: Date,
    file: File,
}

impl Files {
    fn open(dir: &Path, keep_days: u32, day: Date) -> Result<Self, Failure> {
        let cannot = |error: std::io::Error| {
            Failure::config(format!("cannot write the log in `{}`: {error}", dir.display()))
                .hint("`--log-dir` sets another directory, `--log-stderr` needs none")
        };
        std::fs::create_dir_all(dir).map_err(cannot)?;
        let file = open(dir, day).map_err(cannot)?;
        let files = Self { dir: dir.to_owned(), keep_days, day, file };
        files.forget_old();
        Ok(files)
    }

    fn write(&mut self, line: &str, day: Date) -> std::io::Result<()> {
        if day != self.day {
            self.file = open(&self.dir, day)?;
            self.day = day;
            self.forget_old();
        }
        self.file.write_all(line.as_bytes())
    }

    /// Deletes files of old days, by name.
    fn forget_old(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let day =
                name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok());
            let is_old = |day: Date| {
                self.day.since(day).is_ok_and(|age| age.get_days() >= self.keep_days.cast_signed())
            };
            if day.is_some_and(is_old) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

fn open(dir: &Path, day: Date) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = dir.join(format!("{PREFIX}{day}{SUFFIX}"));
    File::options().append(true).create(true).mode(0o640).open(path)
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_has_a_file_and_old_ones_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let names = || {
            let mut names: Vec<_> =
                std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        let day = |text: &str| text.parse::<Date>().unwrap();
        std::fs::write(dir.path().join("serve-2026-01-30.jsonl"), "").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "").unwrap();
        let mut files = Files::open(dir.path(), 30, day("2026-02-28")).unwrap();
        assert_eq!(names(), ["notes.txt", "serve-2026-01-30.jsonl", "serve-2026-02-28.jsonl"]);
        files.write("one\n", day("2026-02-28")).unwrap();
        files.write("two\n", day("2026-03-01")).unwrap();
        assert_eq!(names(), ["notes.txt", "serve-2026-02-28.jsonl", "serve-2026-03-01.jsonl"]);
        assert_eq!(std::fs::read_to_string(dir.path().join("serve-2026-03-01.jsonl")).unwrap(), "two\n");
    }

    #[test]
    fn long_paths_are_truncated_between_characters() {
        assert_eq!(short("/jobs"), "/jobs");
        assert_eq!(short(&"ü".repeat(250)), format!("{}…", "ü".repeat(200)));
    }
}
