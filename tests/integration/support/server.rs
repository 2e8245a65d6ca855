//! A running `serve`, killed with the test.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) struct Server {
    pub(crate) child: Child,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    stderr: Arc<Mutex<String>>,
}

impl Server {
    /// The server started by a command, once it listens.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        loop {
            let Some(Ok(line)) = lines.next() else { panic!("it did not start: {}", stderr.lock().unwrap()) };
            keep(&stderr, &line);
            let url = line.split_once("listening on ").and_then(|(_, url)| url.split_once("://"));
            let Some(address) = url.and_then(|(_, address)| address.split_whitespace().next()) else {
                continue;
            };
            let (address, more) = (address.to_owned(), Arc::clone(&stderr));
            std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| keep(&more, &line)));
            return Self { child, address, stderr };
        }
    }

    /// Everything on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().cast_signed()), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keep(text: &Mutex<String>, line: &str) {
    text.lock().unwrap().extend([line, "\n"]);
}
