//! `leaderboard merge`, `leaderboard export`, `leaderboard site` and `skills lint`.

use std::path::{Path, PathBuf};

use super::args::{
    ExportArgs, ExportFormat, LeaderboardCommand, LintArgs, MergeArgs, SiteArgs, SkillsCommand,
};
use super::display::Display;
use crate::console;
use crate::engine::report::write_file;
use crate::leaderboard::{HubBenchmark, HubResult, Leaderboard};
use crate::model::{Exit, Failure, printable};
use crate::protocol::names::is_repository;
use crate::site;
use crate::skills::lint;
use crate::util::regular_file;

pub(super) fn leaderboard(command: LeaderboardCommand, display: &Display) -> anyhow::Result<Exit> {
    match command {
        LeaderboardCommand::Merge(MergeArgs { files, output }) => {
            let board = read(&files)?;
            put(output.as_deref(), &board.to_bytes())?;
            let files = files.len();
            display.note(&format!("{} entries from {files} arguments", board.entries().len()));
        }
        LeaderboardCommand::Export(args) => {
            let board = read(&args.files)?;
            let text = match args.format {
                ExportFormat::Csv => board.to_csv(),
                ExportFormat::Hf => hub_results(board, &args)?,
            };
            put(args.output.as_deref(), text.as_bytes())?;
        }
        LeaderboardCommand::Site(SiteArgs { library, output, repo, title }) => {
            if let Some(repo) = repo.as_deref().filter(|repo| !is_repository(repo)) {
                let message = format!("`{}` is not a repository", printable(repo));
                return Err(Failure::new(Exit::Usage, message).hint("write it as `owner/name`").into());
            }
            let site::Library { board, warnings } = site::Library::read(&library, &title)?;
            let board = board.signed_in(repo);
            for warning in &warnings {
                display.warning(warning);
            }
            let site::WrittenSite { pages, files, largest_page, bytes, deleted } =
                site::write(&board, &output)?;
            let deleted = if deleted > 0 { format!(", {deleted} old files deleted") } else { String::new() };
            display.note(&format!(
                "{pages} pages, {files} files, {} KB, the largest page {} KB{deleted}: open `{}`",
                bytes.div_ceil(1000),
                largest_page.div_ceil(1000),
                output.join("index.html").display()
            ));
        }
    }
    Ok(Exit::Ok)
}

/// The newest results of one model, as a file of its repository on the Hugging Face Hub.
fn hub_results(board: Leaderboard, args: &ExportArgs) -> anyhow::Result<String> {
    let benchmark =
        HubBenchmark { dataset: args.benchmark.clone().unwrap_or_default(), source: args.source.clone() };
    let place = args.files.first().map_or(Path::new("."), PathBuf::as_path);
    let root = if place.is_dir() { place } else { place.parent().unwrap_or(place) };
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    // The history of the library decides which entry is the newest, as on its pages.
    let board = site::Library::beside(board, root, root, "").board;
    let names = board.model_names();
    let model = match (&args.model, &names[..]) {
        (Some(model), _) if names.contains(&model.as_str()) => model,
        (None, [only]) => *only,
        (model, _) => {
            let message = match model {
                Some(model) => format!("no entry of the model `{}`", printable(model)),
                None => format!("there are {} models, and a file has the results of one", names.len()),
            };
            let names: Vec<String> = names.iter().map(|name| format!("`{}`", printable(name))).collect();
            return Err(Failure::new(Exit::Usage, message)
                .hint(format!("`--model` takes one of: {}", names.join(", ")))
                .into());
        }
    };
    let entries = board.newest_of(model);
    let results: Vec<HubResult<'_>> =
        entries.into_iter().filter_map(|entry| HubResult::new(entry, &benchmark)).collect();
    Ok(serde_yaml::to_string(&results)?)
}

fn put(output: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match output {
        Some(path) => write_file(path, bytes),
        None => console::stdout(&String::from_utf8_lossy(bytes)),
    }
}

/// All entries of the files, and of the `.json` files of directories.
fn read(paths: &[PathBuf]) -> Result<Leaderboard, Failure> {
    let mut board = Leaderboard::empty();
    for path in paths {
        let cannot =
            |error: std::io::Error| Failure::config(format!("cannot read `{}`: {error}", path.display()));
        let mut files = vec![path.clone()];
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(cannot)?;
            let names = entries.map(|entry| entry.map(|entry| entry.path()));
            files = names.collect::<Result<Vec<_>, _>>().map_err(cannot)?;
            files.retain(|file| file.extension().is_some_and(|end| end == "json"));
            files.sort_unstable();
        }
        for file in files {
            let bytes = regular_file::read(&file, regular_file::CONTENT)
                .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", file.display())))?;
            board.merge(&Leaderboard::repair(&bytes, &file)?);
        }
    }
    Ok(board)
}

pub(super) fn skills(command: SkillsCommand, display: &Display) -> anyhow::Result<Exit> {
    let SkillsCommand::Lint(LintArgs { skills, library, write, strict, format }) = command;
    let found = lint::lint(&library, &skills)?;
    format.print(&found, || found.iter().map(lint::SkillLint::render).collect())?;
    for skill in &found {
        let Some(proposal) = &skill.proposal else { continue };
        let path = skill.path.display();
        if skill.path.exists() {
            display.note(&format!("add to `{path}`:\n{proposal}"));
        } else if write {
            write_file(&skill.path, proposal.as_bytes())?;
            display.note(&format!("wrote `{path}`"));
        } else {
            display.note(&format!("`--write` writes `{path}`:\n{proposal}"));
        }
    }
    let is_unsound = found.iter().any(lint::SkillLint::is_unsound);
    let is_doubtful = strict && !write && found.iter().any(|skill| !skill.doubts.is_empty());
    Ok(if is_unsound || is_doubtful { Exit::Failure } else { Exit::Ok })
}
