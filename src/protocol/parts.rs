//! The files of an archive on a hand-over branch: one, or parts, because GitHub refuses files above 100 MB.

use super::archive::Limits;
use super::names::{BATCH_FILE, batch_part, is_batch_file, number_of_batch_part};

/// How an archive is split into files.
#[derive(Debug, Clone, Copy)]
pub struct Split {
    /// The most bytes of an archive in one file, and of each part.
    pub part_bytes: u64,
    /// The most bytes of an archive.
    pub archive_bytes: u64,
}

impl Default for Split {
    /// GitHub warns about files above 50 MiB.
    fn default() -> Self {
        Self { part_bytes: 50_000_000, archive_bytes: Limits::default().archive_bytes }
    }
}

impl Split {
    /// The names and sizes of the files of an archive, in order.
    pub fn files(self, bytes: u64) -> Vec<(String, u64)> {
        if bytes <= self.part_bytes {
            return vec![(BATCH_FILE.to_owned(), bytes)];
        }
        let sizes = (0..bytes.div_ceil(self.part_bytes))
            .map(|part| self.part_bytes.min(bytes - part * self.part_bytes));
        (0..).map(batch_part).zip(sizes).collect()
    }

    /// The files of an archive among those of a branch, in order; none if the branch has no archive. The error is the middle of a
    /// sentence.
    pub fn select(self, names: &[String]) -> Result<Vec<String>, String> {
        let found: Vec<&str> = names.iter().map(String::as_str).filter(|name| is_batch_file(name)).collect();
        if found.is_empty() || found == [BATCH_FILE] {
            return Ok(found.into_iter().map(ToOwned::to_owned).collect());
        }
        if found.contains(&BATCH_FILE) {
            return Err(format!("it has both `{BATCH_FILE}` and parts of it"));
        }
        let most = self.archive_bytes.div_ceil(self.part_bytes);
        if found.len() as u64 > most {
            return Err(format!("it has {} parts, at most {most} are allowed", found.len()));
        }
        let parts: Vec<String> = (0..).map(batch_part).take(found.len()).collect();
        match parts.iter().find(|part| !found.contains(&part.as_str())) {
            Some(part) => Err(format!("the part `{part}` is missing")),
            None => Ok(parts),
        }
    }

    /// Adds the size of a file to that of the files before it, if the archive does not become too large.
    pub fn add(self, before: u64, name: &str, size: u64) -> Result<u64, String> {
        let most = if number_of_batch_part(name).is_some() { self.part_bytes } else { self.archive_bytes };
        if size > most {
            return Err(format!("`{name}` has {size} bytes, more than {most}"));
        }
        let bytes = before.saturating_add(size);
        if bytes > self.archive_bytes {
            return Err(format!("it has {bytes} bytes or more, at most {} are allowed", self.archive_bytes));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SMALL: Split = Split { part_bytes: 10, archive_bytes: 95 };

    fn select(names: &[&str]) -> Result<Vec<String>, String> {
        SMALL.select(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        fn the_files_of_every_archive_are_selected_again(bytes in 0..=SMALL.archive_bytes, other: u8) {
            let files = SMALL.files(bytes);
            let mut names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
            let expected = names.clone();
            names.insert(usize::from(other) % (names.len() + 1), "README.md".to_owned());
            names.reverse();
            prop_assert_eq!(SMALL.select(&names).unwrap(), expected);
            let mut sum = 0;
            for (name, size) in &files {
                prop_assert!(*size <= SMALL.part_bytes && (*size > 0 || bytes == 0));
                sum = SMALL.add(sum, name, *size).unwrap();
            }
            prop_assert_eq!(sum, bytes);
        }

        #[test]
        fn no_names_panic(names in proptest::collection::vec("batch.tar.gz(.[0-9]{0,3})?", 0..14)) {
            let _ = SMALL.select(&names);
        }
    }

    #[test]
    fn small_archives_are_one_file_and_large_ones_at_most_eleven() {
        let split = Split::default();
        assert_eq!(split.files(50_000_000), [("batch.tar.gz".to_owned(), 50_000_000)]);
        assert_eq!(
            split.files(100_000_001),
            [("batch.tar.gz.00", 50_000_000), ("batch.tar.gz.01", 50_000_000), ("batch.tar.gz.02", 1)]
                .map(|(name, size)| (name.to_owned(), size))
        );
        let most = split.files(split.archive_bytes);
        assert_eq!((most.len(), most[10].0.as_str(), most[10].1), (11, "batch.tar.gz.10", 36_870_912));
    }

    #[test]
    fn other_names_and_numbers_of_parts_are_refused() {
        let problem = |names: &[&str]| select(names).unwrap_err();
        assert_eq!(
            problem(&["batch.tar.gz", "batch.tar.gz.00"]),
            "it has both `batch.tar.gz` and parts of it"
        );
        assert_eq!(problem(&["batch.tar.gz.01"]), "the part `batch.tar.gz.00` is missing");
        assert_eq!(problem(&["batch.tar.gz.00", "batch.tar.gz.02"]), "the part `batch.tar.gz.01` is missing");
        for name in
            ["batch.tar.gz.", "batch.tar.gz.1", "batch.tar.gz.000", "batch.tar.gz.0x", "batch.tar.gz.+1"]
        {
            assert_eq!(
                problem(&["batch.tar.gz.00", name]),
                "the part `batch.tar.gz.01` is missing",
                "{name}"
            );
        }
        let many: Vec<String> = (0..11).map(batch_part).collect();
        assert_eq!(SMALL.select(&many).unwrap_err(), "it has 11 parts, at most 10 are allowed");
        assert_eq!(select(&["README.md", "batch.tar", "xbatch.tar.gz.00"]), Ok(Vec::new()));
    }

    #[test]
    fn parts_and_archives_that_are_too_large_are_refused() {
        assert_eq!(
            SMALL.add(0, "batch.tar.gz.00", 11).unwrap_err(),
            "`batch.tar.gz.00` has 11 bytes, more than 10"
        );
        assert_eq!(SMALL.add(0, "batch.tar.gz", 95), Ok(95));
        assert_eq!(
            SMALL.add(0, "batch.tar.gz", 96).unwrap_err(),
            "`batch.tar.gz` has 96 bytes, more than 95"
        );
        assert_eq!(
            SMALL.add(90, "batch.tar.gz.09", 6).unwrap_err(),
            "it has 96 bytes or more, at most 95 are allowed"
        );
    }
}
