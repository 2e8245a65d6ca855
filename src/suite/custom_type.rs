//! Assertion types that a repository defines: a file in `.agentv` named after the type.

use std::path::{Path, PathBuf};

/// The folders of `.agentv`. AgentV reads all `assertions` folders before the others, nearest directory first.
const FOLDERS: [&[&str]; 2] = [&["assertions"], &["graders", "judges"]];
const ENDINGS: [&str; 4] = ["ts", "js", "mts", "mjs"];

/// The folder and the file of a type, for a suite with these directories, nearest first.
pub fn find_custom_type(name: &str, dirs: &[&Path]) -> Option<(&'static str, PathBuf)> {
    // A type is a name, never a path.
    if name.contains(['/', '\\']) {
        return None;
    }
    for group in FOLDERS {
        for dir in dirs {
            for folder in group {
                let folder_path = dir.join(".agentv").join(folder);
                let mut files = ENDINGS.iter().map(|ending| folder_path.join(format!("{name}.{ending}")));
                if let Some(path) = files.find(|path| path.is_file()) {
                    return Some((folder, path));
                }
            }
        }
    }
    None
}
