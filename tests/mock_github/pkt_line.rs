//! The part of git's wire protocol that a server needs to inspect pushes before git does.

/// One command of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    /// The old value of the ref, as the pusher knows it; zeros for none.
    pub(crate) old: String,
    /// The new value of the ref; zeros to delete it.
    pub(crate) new: String,
    /// `refs/…`.
    pub(crate) reference: String,
}

impl Update {
    /// The branch, if it is one.
    pub(crate) fn branch(&self) -> Option<&str> {
        self.reference.strip_prefix("refs/heads/")
    }

    /// Whether the ref is to be deleted.
    pub(crate) fn is_deletion(&self) -> bool {
        self.new.bytes().all(|byte| byte == b'0')
    }
}

/// The commands of a push and whether the pusher wants the response in a side band; `None` while bytes are missing.
pub(crate) fn updates(bytes: &[u8]) -> Option<(Vec<Update>, bool)> {
    let (mut updates, mut has_side_band, mut at) = (Vec::new(), false, 0);
    loop {
        let length = std::str::from_utf8(bytes.get(at..at + 4)?).ok()?;
        let length = usize::from_str_radix(length, 16).ok()?;
        if length < 4 {
            return Some((updates, has_side_band));
        }
        let line = String::from_utf8_lossy(bytes.get(at + 4..at + length)?).into_owned();
        let (command, capabilities) = line.split_once('\0').unwrap_or((&line, ""));
        has_side_band |= capabilities.contains("side-band-64k");
        let mut words = command.trim_end().splitn(3, ' ');
        if let (Some(old), Some(new), Some(reference)) = (words.next(), words.next(), words.next())
            && old.len() >= 40
        {
            updates.push(Update {
                old: old.to_owned(),
                new: new.to_owned(),
                reference: reference.to_owned(),
            });
        }
        at += length;
    }
}

/// The response that rejects a whole push: a message for people, and one reason per ref.
pub(crate) fn refusal(updates: &[Update], has_side_band: bool, text: &str, reason: &str) -> Vec<u8> {
    let mut report = line(b"unpack ok\n");
    for update in updates {
        report.extend(line(format!("ng {} {reason}\n", update.reference).as_bytes()));
    }
    report.extend_from_slice(b"0000");
    if !has_side_band {
        return report;
    }
    let mut answer = Vec::new();
    for chunk in text.as_bytes().chunks(900) {
        answer.extend(line(&[b"\x02", chunk].concat()));
    }
    answer.extend(line(&[b"\x01", &report[..]].concat()));
    answer.extend_from_slice(b"0000");
    answer
}

fn line(content: &[u8]) -> Vec<u8> {
    [format!("{:04x}", content.len() + 4).as_bytes(), content].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_once_they_are_complete() {
        let (old, new) = ("0".repeat(40), "a".repeat(40));
        let mut bytes =
            line(format!("{old} {new} refs/heads/x/y\0 report-status side-band-64k agent=git/2").as_bytes());
        bytes.extend(line(format!("{new} {old} refs/heads/z").as_bytes()));
        assert_eq!(updates(&bytes), None);
        bytes.extend_from_slice(b"0000PACK");
        let (all, has_side_band) = updates(&bytes).unwrap();
        assert!(has_side_band);
        assert_eq!(all.iter().map(|update| update.branch().unwrap()).collect::<Vec<_>>(), ["x/y", "z"]);
        assert_eq!(all.iter().map(Update::is_deletion).collect::<Vec<_>>(), [false, true]);
        assert_eq!(updates(b"0000"), Some((Vec::new(), false)));
    }
}
