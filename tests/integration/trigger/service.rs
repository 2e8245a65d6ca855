//! A service that only gives scripted responses and records its requests.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

/// A running recorder. Its thread ends with the test.
pub(super) struct Recorder {
    address: String,
    state: Arc<Mutex<State>>,
}

/// Its requests and its responses.
#[derive(Default)]
pub(super) struct State {
    /// Every request: method and path, headers, body.
    pub(super) requests: Vec<(String, Vec<String>, String)>,
    /// The next responses to job requests, complete; after them, it accepts one job at a time.
    pub(super) scripted: VecDeque<(u16, String)>,
    /// The jobs, newest first.
    pub(super) jobs: Vec<Value>,
    /// After this many reads of the list, the running job is done; never if `None`.
    pub(super) looks_per_job: Option<u32>,
    looks: u32,
}

impl Recorder {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let _ = serve(&stream, &shared);
                let _ = stream.shutdown(Shutdown::Both);
            }
        });
        Self { address, state }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The bodies of all job requests.
    pub(super) fn job_requests(&self) -> Vec<Value> {
        let state = self.state();
        let orders = state.requests.iter().filter(|(line, ..)| line.starts_with("POST "));
        orders.map(|(_, _, body)| serde_json::from_str(body).unwrap()).collect()
    }

    /// Sets the response to the next job request.
    pub(super) fn answer(&self, status: u16, body: &str) {
        self.state().scripted.push_back((status, body.to_owned()));
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.jobs.iter().any(|job| job["state"] == "running")
    }

    fn submit(&mut self, body: &str) -> (u16, String) {
        if let Some(scripted) = self.scripted.pop_front() {
            return scripted;
        }
        let order: Value = serde_json::from_str(body).unwrap();
        if let Some(job) = self.jobs.iter().find(|job| job["state"] == "running") {
            let current = json!({ "skill": job["skill"], "started_at": job["started_at"] });
            return (409, json!({ "busy": true, "current_job": current }).to_string());
        }
        let job_id = format!("job-{}", self.jobs.len() + 1);
        let job = json!({
            "job_id": job_id, "skill": order["skill_name"], "replicates": order["replicates"],
            "git_sha": order["git_sha"], "prompt_commit": order["git_sha"], "state": "running",
            "progress": { "done": 0, "total": 10 }, "started_at": "2026-11-17T03:17:00Z",
            "finished_at": null, "summary": null, "pull_request": null, "reason": null,
        });
        self.jobs.insert(0, job);
        self.looks = 0;
        (202, json!({ "job_id": job_id }).to_string())
    }

    fn list(&mut self) -> (u16, String) {
        self.looks += 1;
        if self.looks_per_job.is_some_and(|most| self.looks >= most) && self.is_busy() {
            for job in &mut self.jobs {
                job["state"] = "completed".into();
            }
        }
        (200, json!({ "jobs": self.jobs }).to_string())
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        if header.trim().is_empty() {
            break;
        }
        headers.push(header.trim().to_owned());
    }
    let length = headers.iter().find_map(|header| {
        let (name, value) = header.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).unwrap();
    let request = line.trim().trim_end_matches(" HTTP/1.1").to_owned();
    let (status, answer) = {
        let mut state = state.lock().unwrap();
        state.requests.push((request.clone(), headers, body.clone()));
        match request.as_str() {
            "POST /evaluate" => state.submit(&body),
            "GET /jobs" => state.list(),
            _ => (404, json!({ "error": "no such route" }).to_string()),
        }
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nLocation: http://127.0.0.1:1/elsewhere\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{answer}",
        answer.len()
    )
}
