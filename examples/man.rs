//! Writes the man pages of all commands to a directory: `cargo run --example man -- DIR`.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use run_evals::testing::Cli;

fn main() -> std::io::Result<()> {
    write(&PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "target/man".into())))
}

fn write(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command(), dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path()).expect("the pages are written");
        let mut root = Cli::command();
        root.build();
        for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
            let page = dir.path().join(format!("run-evals-{}.1", command.get_name()));
            assert!(page.is_file(), "{}", page.display());
        }
    }
}
