//! Questions to a person on the terminal.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use crate::model::{Exit, Failure, Secret};

/// Longer than any key.
const LONGEST_SECRET: u64 = 64 << 10;
const INTERRUPT: u8 = 0x03;
const END: u8 = 0x04;
const BACKSPACE: [u8; 2] = [0x08, 0x7f];

/// Asks a yes-or-no question; `false` without a terminal.
pub fn confirm(question: &str) -> bool {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return false;
    }
    let mut answer = String::new();
    ask(&format!("{question} [y/N] "));
    io::stdin().read_line(&mut answer).is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Reads a secret: typed without echo on a terminal, else all of stdin.
pub fn secret(question: &str) -> Result<Secret, Failure> {
    let unreadable =
        |error: io::Error| Failure::new(Exit::Failure, format!("cannot read from stdin: {error}"));
    let mut text = String::new();
    if io::stdin().is_terminal() {
        let typed = typed_without_echo(question).map_err(unreadable)?;
        ask("\n");
        text = typed.ok_or_else(|| Failure::new(Exit::Failure, "interrupted"))?;
    } else {
        io::stdin().lock().take(LONGEST_SECRET).read_to_string(&mut text).map_err(unreadable)?;
    }
    Ok(Secret::new(&text))
}

fn ask(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// A line from the terminal; `None` after Ctrl-C.
fn typed_without_echo(question: &str) -> io::Result<Option<String>> {
    // Silent before anyone can answer.
    let _silent = EchoGuard::start()?;
    ask(question);
    let mut bytes: Vec<u8> = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte? {
            INTERRUPT => return Ok(None),
            b'\n' | b'\r' | END => break,
            erase if BACKSPACE.contains(&erase) => {
                bytes.pop();
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).map(Some).map_err(|_| io::Error::other("not text"))
}

/// A terminal that shows nothing and hands over each byte, restored on drop. Signals are off too: a process that ended here
/// would leave the terminal silent.
struct EchoGuard(Termios);

impl EchoGuard {
    fn start() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for EchoGuard {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}
