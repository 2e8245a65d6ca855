//! Calls of one AgentV meet here and become one batch.
//!
//! A call is a file: in `waiting` until it belongs to a batch, in `called` until its response is delivered, then in `done`. Its
//! process holds a lock on it, so an unlocked file has no waiting process. The process that holds the `gather` lock makes the next
//! batch of the waiting calls. All locks end with their process: a killed process blocks no other.

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::batch::JoinedBatch;
use super::prompt::Prompt;
use crate::model::{Attachment, Digest, Failure, Message, Metadata, Params, Request, printable, request_id};
use crate::util::durable;

/// How often the directory is checked for further calls.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// The most bytes of prompts and attachments in one batch. A larger batch would work, but takes longer to hand over.
const MOST_BYTES: u64 = 64 << 20;
/// How long a repeated call waits for its predecessor to notice that it was abandoned.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(2);

const WAITING: &str = "waiting";
const CALLED: &str = "called";
const DONE: &str = "done";

/// The calls that can become one batch: those of one AgentV for one target.
#[derive(Debug, Clone)]
pub struct Rendezvous {
    dir: PathBuf,
}

/// The content of a call's file.
#[derive(Debug, Serialize, Deserialize)]
struct Call {
    /// AgentV's name of the test.
    id: String,
    messages: Vec<Message>,
    files: Vec<Attachment>,
}

/// A call with a waiting process.
#[derive(Debug)]
pub struct Ticket {
    rendezvous: Rendezvous,
    name: String,
    /// The number of batch attempts that do not count for this call.
    seen: u32,
    /// Held while the process waits.
    _lock: File,
}

impl Call {
    /// Refuses an invalid request before it fails a batch for others.
    fn check(&self) -> Result<(), Failure> {
        let request = self.request(1);
        let line = serde_json::to_vec(&request).map_err(|error| Failure::config(error.to_string()))?;
        Request::from_line(&line).map(drop).map_err(|invalid| {
            let message = format!("test `{}` is not a valid request: {invalid}", printable(&self.id));
            Failure::config(message).hint(invalid.hint)
        })
    }

    fn request(&self, replicate: u32) -> Request {
        let Self { id: test_id, messages, files } = self;
        Request {
            id: request_id(test_id, replicate),
            messages: messages.clone(),
            params: Params::default(),
            tools: Vec::new(),
            files: files.clone(),
            metadata: Metadata { test_id: test_id.clone(), replicate, ..Metadata::default() },
        }
    }
}

impl Rendezvous {
    /// Opens the rendezvous for a purpose, in the directory of one AgentV.
    pub fn open(place: &Path, purpose: &str) -> anyhow::Result<Self> {
        let dir = place.join(format!("calls-{}", &Digest::of(purpose.as_bytes()).to_string()[..16]));
        for folder in [WAITING, CALLED, DONE, "files", "batches"] {
            durable::create_dir_all(&dir.join(folder))
                .with_context(|| format!("cannot create a directory in `{}`", dir.display()))?;
        }
        Ok(Self { dir })
    }

    /// The directory of attachments, by digest.
    pub fn files(&self) -> PathBuf {
        self.dir.join("files")
    }

    /// Adds a call. AgentV repeats one that failed or timed out: a test's with the next `attempt`, a grader's with the same one. It
    /// continues an abandoned call with the same content. Any other call is a new request, even with equal content: repetitions
    /// are wanted because answers differ.
    pub fn take_in(
        &self,
        id: &str,
        prompt: Prompt,
        output_file: &Path,
        attempt: u32,
    ) -> anyhow::Result<Ticket> {
        self.keep_files(&prompt)?;
        let call = Call { id: id.to_owned(), messages: prompt.messages, files: prompt.files };
        call.check()?;
        let json = serde_json::to_vec(&call)?;
        let content = Digest::of(&json).to_string()[..32].to_owned();
        let key = Digest::of(output_file.as_os_str().as_encoded_bytes()).to_string()[..16].to_owned();
        let own = format!("{content}-{key}");
        let deadline = Instant::now() + GIVEN_UP_WITHIN;
        loop {
            let (claimed, is_held) = self.claim(&content)?;
            if let Some(ticket) = claimed {
                // The attempts of all calls of a batch are one more attempt of the batch.
                return Ok(if attempt > 0 { Ticket { seen: attempt, ..ticket } } else { ticket });
            }
            if attempt == 0 || !is_held || Instant::now() > deadline {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.announce(&own, &json)
    }

    /// An abandoned call whose file name starts with this, and whether there is one that is still awaited.
    fn claim(&self, beginning: &str) -> anyhow::Result<(Option<Ticket>, bool)> {
        let mut is_held = false;
        for folder in [WAITING, CALLED] {
            for name in self.names(folder)?.into_iter().filter(|name| name.starts_with(beginning)) {
                let lock = match File::open(self.dir.join(folder).join(&name)) {
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    opened => opened?,
                };
                match lock.try_lock() {
                    Ok(()) => {}
                    Err(TryLockError::WouldBlock) => {
                        is_held = true;
                        continue;
                    }
                    Err(TryLockError::Error(error)) => return Err(error.into()),
                }
                // It may have been delivered just now.
                if self.dir.join(DONE).join(&name).exists() {
                    continue;
                }
                let mut ticket = Ticket { rendezvous: self.clone(), name, seen: 0, _lock: lock };
                match ticket.batch()? {
                    Some(batch) => ticket.seen = batch.tries()?,
                    // Its batch is damaged and was never started: it waits for another one.
                    None if folder == CALLED => self.take_back(&ticket.name)?,
                    None => {}
                }
                return Ok((Some(ticket), is_held));
            }
        }
        Ok((None, is_held))
    }

    /// Adds a new call to the waiting ones; it is locked before it becomes visible.
    fn announce(&self, own: &str, json: &[u8]) -> anyhow::Result<Ticket> {
        let cannot = "cannot write a call";
        // Names are unique, even for repetitions with the same output file.
        let name = format!("{own}-{:016x}.json", fastrand::u64(..));
        let path = self.dir.join(WAITING).join(&name);
        // Not in `waiting`, where it would count as a call before it has its name.
        let mut file = durable::temporary_for(&self.dir.join(&name)).context(cannot)?;
        file.write_all(json).context(cannot)?;
        let lock = file.as_file().try_clone().context(cannot)?;
        lock.lock().context(cannot)?;
        durable::persist(file, &path).context(cannot)?;
        Ok(Ticket { rendezvous: self.clone(), name, seen: 0, _lock: lock })
    }

    /// Copies attachments: AgentV may change or remove its files before the batch is sent.
    fn keep_files(&self, prompt: &Prompt) -> anyhow::Result<()> {
        for (sha256, bytes) in &prompt.bytes {
            let kept = self.files().join(sha256.to_string());
            if !kept.exists() {
                durable::write(&kept, bytes).context("cannot keep an attachment")?;
            }
        }
        Ok(())
    }

    /// Waits until enough calls wait or no other arrives for a while, then makes a batch of `own` and other awaited calls. Only the
    /// holder of the `gather` lock may call it.
    fn gather(&self, own: &str, workers: usize, window: Duration) -> anyhow::Result<(JoinedBatch, File)> {
        self.repair()?;
        let mut known = HashSet::new();
        let mut changed = Instant::now();
        let names = loop {
            let names = self.names(WAITING)?;
            if names.iter().any(|name| !known.contains(name)) {
                known.extend(names.iter().cloned());
                changed = Instant::now();
            }
            let is_quiet = changed.elapsed() >= window;
            if names.len() >= workers || is_quiet {
                let awaited = names.into_iter().filter_map(|name| match self.is_awaited(&name) {
                    Ok(true) => Some(Ok(name)),
                    Ok(false) => None,
                    Err(error) => Some(Err(error)),
                });
                let awaited = awaited.collect::<anyhow::Result<Vec<String>>>()?;
                if awaited.len() >= workers || is_quiet {
                    break awaited;
                }
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let mut calls = self.that_fit(own, names)?;
        calls.sort_by(|(a, a_name), (b, b_name)| (&a.id, a_name).cmp(&(&b.id, b_name)));
        let (requests, members): (Vec<Request>, Vec<String>) = requests(calls).into_iter().unzip();
        let (batch, lock) = JoinedBatch::make(&self.dir.join("batches"), &requests, &members)?;
        tracing::debug!(batch = batch.id().as_str(), calls = members.len(), "a batch leaves");
        for name in &members {
            self.pass_on(name)?;
        }
        Ok((batch, lock))
    }

    /// The calls with these names that fit into one batch, `own` first; the others wait for the next.
    fn that_fit(&self, own: &str, mut names: Vec<String>) -> anyhow::Result<Vec<(Call, String)>> {
        names.sort_by_key(|name| name != own);
        let (mut calls, mut bytes, mut files) = (Vec::new(), 0, HashSet::new());
        for name in names {
            let json = std::fs::read(self.dir.join(WAITING).join(&name)).context("cannot read a call")?;
            let call: Call = serde_json::from_slice(&json).context("cannot read a call")?;
            let new = call.files.iter().filter(|file| files.insert(file.sha256));
            bytes += json.len() as u64 + new.map(|file| file.size).sum::<u64>();
            if bytes > MOST_BYTES && !calls.is_empty() {
                break;
            }
            calls.push((call, name));
        }
        Ok(calls)
    }

    /// Finishes moving the calls of a batch whose process was killed.
    fn repair(&self) -> anyhow::Result<()> {
        let waiting = self.names(WAITING)?;
        let mut members = HashSet::new();
        for batch in self.batches()? {
            members.extend(batch.members()?);
        }
        waiting.iter().filter(|name| members.contains(*name)).try_for_each(|name| self.pass_on(name))
    }

    fn pass_on(&self, name: &str) -> anyhow::Result<()> {
        durable::rename(&self.dir.join(WAITING).join(name), &self.dir.join(CALLED).join(name))
            .context("cannot move a call to its batch")
    }

    fn take_back(&self, name: &str) -> anyhow::Result<()> {
        durable::rename(&self.dir.join(CALLED).join(name), &self.dir.join(WAITING).join(name))
            .context("cannot move a call back")
    }

    /// Whether the process of a call still waits.
    fn is_awaited(&self, name: &str) -> anyhow::Result<bool> {
        match File::open(self.dir.join(WAITING).join(name))?.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// The existing batches, newest first.
    fn batches(&self) -> anyhow::Result<Vec<JoinedBatch>> {
        let mut names = self.names("batches")?;
        names.sort_by(|a, b| b.cmp(a));
        let batches = names.iter().map(|name| JoinedBatch::open(&self.dir.join("batches").join(name)));
        Ok(batches.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn names(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let dir = self.dir.join(folder);
        let entries = std::fs::read_dir(&dir).with_context(|| format!("cannot read `{}`", dir.display()))?;
        let name =
            |entry: std::io::Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        entries.map(name).collect()
    }
}

impl Ticket {
    /// The call's batch: waits for one that is being made, or makes it. The process that makes it leads it and holds its lock.
    /// Blocks.
    pub fn join(&self, workers: usize, window: Duration) -> anyhow::Result<(JoinedBatch, Option<File>)> {
        let gather = File::create(self.rendezvous.dir.join("gather.lock"))?;
        gather.lock()?;
        if let Some(batch) = self.batch()? {
            // Its maker may have been killed before moving this call.
            if self.rendezvous.dir.join(WAITING).join(&self.name).exists() {
                self.rendezvous.pass_on(&self.name)?;
            }
            return Ok((batch, None));
        }
        let (batch, lock) = self.rendezvous.gather(&self.name, workers, window)?;
        Ok((batch, Some(lock)))
    }

    /// The batch that the call belongs to.
    fn batch(&self) -> anyhow::Result<Option<JoinedBatch>> {
        for batch in self.rendezvous.batches()? {
            if batch.members()?.contains(&self.name) {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// Its line in its batch.
    pub fn line(&self, batch: &JoinedBatch) -> anyhow::Result<usize> {
        let members = batch.members()?;
        members.iter().position(|name| *name == self.name).context("the call is not part of its batch")
    }

    /// The number of batch attempts that do not count: they were made before the call or its current attempt. If there is no
    /// response after more attempts than that, the batch is run once more.
    pub fn seen(&self) -> u32 {
        self.seen
    }

    /// Records that AgentV has the response, so that no later call gets it again. Call it last: if the process is killed between
    /// this and its exit, nothing was delivered, and the next attempt pays again.
    ///
    /// Deliberately not synced: after a power cut the response may be delivered again, but is not paid for again.
    pub fn delivered(self) -> anyhow::Result<()> {
        let dir = &self.rendezvous.dir;
        durable::rename_unsynced(&dir.join(CALLED).join(&self.name), &dir.join(DONE).join(&self.name))
            .context("cannot record that a call was answered")
    }
}

/// The calls as requests of one batch. Repetitions of a test get replicate ids.
fn requests(calls: Vec<(Call, String)>) -> Vec<(Request, String)> {
    let mut taken = HashSet::new();
    let mut numbered = Vec::new();
    for (call, name) in calls {
        let mut replicate = 1;
        // A test may itself be called `a#2`.
        while !taken.insert(request_id(&call.id, replicate)) {
            replicate += 1;
        }
        numbered.push((call.request(replicate), name));
    }
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_beyond_the_limits_of_a_batch_wait_for_the_next() {
        let place = tempfile::tempdir().unwrap();
        let rendezvous = Rendezvous::open(place.path(), "test").unwrap();
        let file = |n: u8, size| {
            let (sha256, media_type) = (Digest::of(&[n]), "application/pdf".to_owned());
            Attachment { sha256, name: "a.pdf".to_owned(), media_type, size }
        };
        let half = MOST_BYTES / 2;
        let all = [
            ("a", file(1, half)),
            ("b", file(2, half)),
            ("c", file(1, half)),
            ("d", file(4, MOST_BYTES * 2)),
        ];
        for (id, file) in all {
            let call = Call { id: id.to_owned(), messages: Vec::new(), files: vec![file] };
            std::fs::write(rendezvous.dir.join(WAITING).join(id), serde_json::to_vec(&call).unwrap())
                .unwrap();
        }
        let ids = |own: &str| {
            let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
            let calls = rendezvous.that_fit(own, names).unwrap();
            calls.into_iter().map(|(call, _)| call.id).collect::<Vec<_>>()
        };
        // A file that several calls attach counts once.
        assert_eq!(ids("c"), ["c", "a"]);
        assert_eq!(ids("b"), ["b"]);
        // A call that exceeds the limits by itself leaves alone: its runner reports the problem.
        assert_eq!(ids("d"), ["d"]);
    }

    fn prompt(text: &str) -> Prompt {
        let content = crate::model::Content::Text(text.to_owned());
        let message = Message { role: crate::model::Role::User, content };
        Prompt { messages: vec![message], files: Vec::new(), bytes: std::collections::BTreeMap::default() }
    }

    /// Joins a batch with one other call and gets a response, skipping steps that are done.
    fn answered(rendezvous: &Rendezvous, attempt: u32, mark: &dyn Fn(&str)) -> (String, bool) {
        let take_in = |id: &str| {
            let output = PathBuf::from(format!("{id}.json"));
            let ticket = rendezvous.take_in(id, prompt("hello"), &output, attempt).unwrap();
            mark(&format!("took {id}"));
            ticket
        };
        let tickets = [take_in("a"), take_in("b")];
        let (batch, lock) = tickets[0].join(2, Duration::ZERO).unwrap();
        mark("left");
        let line = tickets[0].line(&batch).unwrap();
        let is_known = batch.response(line).unwrap().is_some_and(|response| response.is_settled());
        if !is_known {
            let rows: String = batch
                .members()
                .unwrap()
                .iter()
                .map(|_| r#"{"id":"a","output":[{"role":"assistant","content":"x"}],"duration_ms":1,"model":"m","target":"t","attempts":1,"request_sha256":"0000000000000000000000000000000000000000000000000000000000000000"}"#.to_owned() + "\n")
                .collect();
            batch.finish(Some(rows.as_bytes()), super::super::batch::AttemptOutcome::default()).unwrap();
            mark("answered");
        }
        drop(lock);
        assert!(batch.response(line).unwrap().is_some());
        let id = batch.id().to_string();
        // The other one joins the same batch or, if its call was lost in the power cut, another one.
        let (other, _) = tickets[1].join(1, Duration::ZERO).unwrap();
        tickets[1].line(&other).unwrap();
        let [a, b] = tickets;
        a.delivered().unwrap();
        b.delivered().unwrap();
        (id, is_known)
    }

    #[test]
    fn after_any_power_cut_calls_continue_and_nothing_is_paid_twice() {
        let dir = tempfile::tempdir().unwrap();
        let disk = durable::crash::Recording::start(dir.path());
        let rendezvous = Rendezvous::open(dir.path(), "test").unwrap();
        let (batch, _) = answered(&rendezvous, 0, &|what| disk.mark(what));
        let crashes = disk.crashes();
        assert!(crashes.len() > 40, "{}", crashes.len());
        for crash in crashes {
            let at = tempfile::tempdir().unwrap();
            crash.restore(at.path());
            let rendezvous = Rendezvous::open(at.path(), "test").unwrap();
            let (again, is_known) = answered(&rendezvous, 1, &|_| {});
            // A batch in the exchange is never called again, and an existing answer is not requested again.
            assert!(again == batch || !crash.after("left"), "{crash:?}");
            assert!(is_known || !crash.after("answered"), "{crash:?}");
        }
    }
}
