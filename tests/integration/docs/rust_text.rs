//! The words of Rust code: literals, comments, names of functions.

/// Each with the line that it begins in.
#[derive(Default)]
pub(super) struct RustText {
    /// Continued lines are joined.
    pub(super) literals: Vec<(usize, String)>,
    /// Comments on successive lines are one text.
    pub(super) comments: Vec<(usize, String)>,
}

impl RustText {
    pub(super) fn of(code: &str) -> Self {
        let chars: Vec<char> = code.chars().collect();
        let is = |at: usize, text: &str| text.chars().enumerate().all(|(n, c)| chars.get(at + n) == Some(&c));
        let (mut at, mut line, mut found) = (0, 1, Self::default());
        while at < chars.len() {
            if is(at, "//") {
                let start = at;
                while at < chars.len() && chars[at] != '\n' {
                    at += 1;
                }
                found.add_comment(line, &chars[start..at].iter().collect::<String>());
            } else if chars[at] == '\'' {
                // A character, or a lifetime.
                let escaped = chars.get(at + 1) == Some(&'\\');
                at += if escaped { 2 } else { 1 };
                if escaped {
                    while chars.get(at + 1).is_some_and(|c| *c != '\'') {
                        at += 1;
                    }
                    at += 2;
                } else if chars.get(at + 1) == Some(&'\'') {
                    at += 2;
                }
            } else if chars[at] == '"' {
                let hashes = chars[..at].iter().rev().take_while(|c| **c == '#').count();
                let is_raw = at > hashes && chars[at - hashes - 1] == 'r';
                let end = format!("\"{}", "#".repeat(if is_raw { hashes } else { 0 }));
                let (start, mut text) = (line, String::new());
                at += 1;
                while at < chars.len() && !is(at, &end) {
                    if !is_raw && chars[at] == '\\' {
                        at += 1;
                        if chars[at] == '\n' {
                            while chars[at].is_whitespace() {
                                line += usize::from(chars[at] == '\n');
                                at += 1;
                            }
                        } else {
                            text.push(if chars[at] == 'n' { '\n' } else { chars[at] });
                            at += 1;
                        }
                        continue;
                    }
                    line += usize::from(chars[at] == '\n');
                    text.push(chars[at]);
                    at += 1;
                }
                at += end.chars().count();
                found.literals.push((start, text.replace('\n', " ")));
            } else {
                line += usize::from(chars[at] == '\n');
                at += 1;
            }
        }
        found
    }

    fn add_comment(&mut self, line: usize, comment: &str) {
        let text = comment.trim_start_matches(['/', '!']).trim();
        match self.comments.last_mut() {
            Some((start, all)) if *start + all.matches('\n').count() + 1 == line => {
                all.push('\n');
                all.push_str(text);
            }
            _ => self.comments.push((line, text.to_owned())),
        }
    }
}

/// The names of the functions of Rust code as words, each with its line.
pub(super) fn function_names(code: &str) -> Vec<(usize, String)> {
    let names = code.lines().zip(1..).filter_map(|(text, line)| {
        let (before, name) = text.split_once("fn ")?;
        let is_word = before.is_empty() || before.ends_with(' ');
        let end = name.find(['(', '<']).filter(|_| is_word && !before.trim_start().starts_with("//"))?;
        Some((line, name[..end].replace('_', " ")))
    });
    names.collect()
}

#[test]
fn literals_comments_and_names_are_read() {
    let code = "let a = '\"'; // \"no\"\nf(\"x \\\n   y\", r#\"z \"q\" \"#, '\\'', b'\\\\');\n&'a str; \"w\\n\"\n\
                /// one\n/// two\n    pub fn it_goes_on(x: u8) {}\n";
    let owned = |(line, text): (usize, &str)| (line, text.to_owned());
    let text = RustText::of(code);
    assert_eq!(text.literals, [(2, "x y"), (3, "z \"q\" "), (4, "w ")].map(owned));
    assert_eq!(text.comments, [(1, "\"no\""), (5, "one\ntwo")].map(owned));
    assert_eq!(function_names(code), [(7, "it goes on")].map(owned));
}
