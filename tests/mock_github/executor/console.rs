//! The log of a job: secrets are masked, workflow commands are executed.

/// GitHub keeps this many annotations of each level per step.
const MOST_ANNOTATIONS: usize = 10;
const LONGEST_ANNOTATION: usize = 4096;

/// Filters the output of a program for its log.
#[derive(Debug, Default)]
pub(super) struct Console {
    /// Level and message.
    pub(super) annotations: Vec<(String, String)>,
    masks: Vec<String>,
    paused_until: Option<String>,
}

impl Console {
    /// A console that masks these values.
    pub(super) fn new(secrets: &[String]) -> Self {
        let mut console = Self::default();
        for secret in secrets {
            console.hide(secret);
        }
        console
    }

    /// The line as it appears in the log, if it does.
    pub(super) fn line(&mut self, line: &str) -> Option<String> {
        if let Some(token) = &self.paused_until {
            if line.trim() == format!("::{token}::") {
                self.paused_until = None;
            }
            return Some(self.logged(line));
        }
        let Some((command, parameters, message)) = command(line) else {
            return Some(self.logged(line));
        };
        match command {
            "add-mask" => {
                self.hide(&unescaped(message));
                Some(self.logged("::add-mask::***"))
            }
            "stop-commands" => {
                self.paused_until = Some(message.to_owned());
                Some(self.logged(line))
            }
            "error" | "warning" | "notice" => {
                let level = if command == "error" { "failure" } else { command };
                let message = unescaped(message);
                let title =
                    parameters.split(',').find_map(|parameter| parameter.trim().strip_prefix("title="));
                let shown =
                    title.map_or_else(|| message.clone(), |title| format!("{}: {message}", unescaped(title)));
                let count = self.annotations.iter().filter(|(known, _)| known == level).count();
                if count < MOST_ANNOTATIONS {
                    let cut: String = self.masked(&shown).chars().take(LONGEST_ANNOTATION).collect();
                    self.annotations.push((level.to_owned(), cut));
                }
                Some(self.logged(&format!("##[{command}]{message}")))
            }
            "group" => Some(self.logged(&format!("##[group]{message}"))),
            "endgroup" => Some(self.logged("##[endgroup]")),
            "debug" => None,
            _ => Some(self.logged(line)),
        }
    }

    /// An error of the runner itself.
    pub(super) fn error(&self, message: &str) -> String {
        self.logged(&format!("##[error]{message}"))
    }

    /// Text with masked secrets.
    pub(super) fn masked(&self, text: &str) -> String {
        self.masks.iter().fold(text.to_owned(), |text, mask| text.replace(mask, "***"))
    }

    /// Whether text contains a secret.
    pub(super) fn has_secret(&self, text: &str) -> bool {
        self.masks.iter().any(|mask| text.contains(mask))
    }

    /// Masks a value; a value of several lines is masked line by line.
    fn hide(&mut self, value: &str) {
        let lines = value.lines().map(str::trim).filter(|line| !line.is_empty());
        self.masks.extend(lines.map(str::to_owned));
        // Longest first, so that nothing of it remains.
        self.masks.sort_by_key(|mask| std::cmp::Reverse(mask.len()));
        self.masks.dedup();
    }

    fn logged(&self, line: &str) -> String {
        format!("{} {}\n", crate::world::now().strftime("%Y-%m-%dT%H:%M:%S%.7fZ"), self.masked(line))
    }
}

/// `::name parameters::message`.
fn command(line: &str) -> Option<(&str, &str, &str)> {
    let (head, message) = line.trim_start().strip_prefix("::")?.split_once("::")?;
    let (name, parameters) = head.split_once(' ').unwrap_or((head, ""));
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    is_name.then_some((name, parameters, message))
}

fn unescaped(text: &str) -> String {
    text.replace("%0D", "\r").replace("%0A", "\n").replace("%3A", ":").replace("%2C", ",").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_commands_are_executed() {
        let mut console = Console::new(&["sk-one".to_owned(), "line 1\nline 2".to_owned()]);
        let lines = [
            "key sk-one, sk-one!",
            "::add-mask::late%25",
            "late% and line 2",
            "::error title=Bad::it%0Abroke sk-one",
            "::debug::nothing",
            "::stop-commands::t0k",
            "::warning::model output",
            "::t0k::",
            "::warning::mine",
            "a::b::c",
        ];
        let log: String = lines.iter().filter_map(|line| console.line(line)).collect();
        let log: Vec<&str> =
            log.lines().map(|line| line.split_once("Z ").map_or(line, |(_, text)| text)).collect();
        insta::assert_snapshot!(log.join("\n"), @r"
        key ***, ***!
        ::add-mask::***
        *** and ***
        ##[error]it
        broke ***
        ::stop-commands::t0k
        ::warning::model output
        ::t0k::
        ##[warning]mine
        a::b::c
        ");
        assert_eq!(
            console.annotations,
            [
                ("failure".to_owned(), "Bad: it\nbroke ***".to_owned()),
                ("warning".to_owned(), "mine".to_owned())
            ]
        );
    }
}
