//! Annotates the tests of a step that did not pass, at their lines in the suite.

use std::path::{Path, PathBuf};

use super::Report;
use crate::console::{Annotation, actions};
use crate::report::{LineNote, line_notes};
use crate::util::process_env::ProcessEnv;

impl Report {
    /// Annotates tests at their lines, worst first; the last annotation that GitHub shows counts the rest.
    pub fn annotate(&self, env: &ProcessEnv) -> anyhow::Result<()> {
        let notes = line_notes(&self.evaluation, &self.results);
        let cwd = std::env::current_dir()?;
        let workspace = env.get("GITHUB_WORKSPACE").map_or_else(|| cwd.clone(), PathBuf::from);
        for (kind, is_error) in [(Annotation::Error, true), (Annotation::Warning, false)] {
            let notes: Vec<&LineNote> = notes.iter().filter(|note| note.is_error == is_error).collect();
            let room = actions::room(kind) as usize;
            let shown = if notes.len() > room { room.saturating_sub(1) } else { notes.len() };
            for note in &notes[..shown] {
                match &note.place {
                    Some(place) => {
                        let file = cwd.join(&place.file);
                        let file = file.strip_prefix(&workspace).unwrap_or(Path::new(&place.file));
                        let at = (&*file.to_string_lossy(), place.line);
                        actions::annotate_line(kind, at, &note.title, &note.text);
                    }
                    None => {
                        actions::annotate(kind, &note.text);
                    }
                }
            }
            if shown < notes.len() {
                let more = notes.len() - shown;
                actions::annotate(kind, &format!("{more} more tests did not pass: see the summary"));
            }
        }
        Ok(())
    }
}
