//! Opens a file in the user's browser.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::util::process_env::ProcessEnv;
use crate::util::programs;

/// Opens a file with the program in `BROWSER`, otherwise with the desktop's; returns an error if that fails.
pub fn open(file: &Path, env: &ProcessEnv) -> Result<(), String> {
    let path = programs::path();
    let mut command = if let Some(browser) = env.get("BROWSER") {
        // A list like `PATH`, each entry with arguments; `%s` is the address.
        let first = browser.split(':').find(|entry| !entry.is_empty()).unwrap_or(browser);
        let mut words = first.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let program =
            if Path::new(name).is_absolute() { Some(name.into()) } else { programs::find(name, &path) };
        let mut command =
            Command::new(program.ok_or_else(|| format!("`{name}` of `BROWSER` was not found"))?);
        let shown = file.display().to_string();
        let mut has_place = false;
        for word in words {
            has_place |= word.contains("%s");
            command.arg(word.replace("%s", &shown));
        }
        if !has_place {
            command.arg(file);
        }
        command
    } else {
        let has_display = cfg!(target_os = "macos") || env.has("DISPLAY") || env.has("WAYLAND_DISPLAY");
        if !has_display {
            return Err("no display found; set `BROWSER` to choose a program".to_owned());
        }
        let name = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let program = programs::find(name, &path).ok_or_else(|| format!("`{name}` was not found"))?;
        let mut command = Command::new(program);
        command.arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    match command.env("PATH", path).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the program failed ({status})")),
        Err(error) => Err(error.to_string()),
    }
}
