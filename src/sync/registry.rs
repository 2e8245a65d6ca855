//! The registry: the benchmarks, their directories and their sources.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{address, agentv, entry};
use crate::config::{Document, Env, Problems, Source as File, Span, did_you_mean};
use crate::model::{Exit, Failure, printable};
use crate::util::path::quoted;

/// The file in AgentV's home.
const FILE: &str = "benchmarks.yaml";
/// AgentV's own file there.
pub(super) const AGENTV_FILE: &str = "config.yaml";

/// A benchmark of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Benchmark {
    /// Its name in commands.
    pub id: String,
    /// Its name for display.
    pub name: String,
    /// Its directory, absolute.
    pub path: PathBuf,
    /// Its source; `None` for a local one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<GitSource>,
    /// When it was added, according to the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added_at: Option<String>,
    /// The file that names it.
    pub registry: PathBuf,
    /// The registry, if it was given explicitly.
    #[serde(skip)]
    pub(super) named: Option<PathBuf>,
}

impl Benchmark {
    /// The command that syncs it.
    pub fn command(&self) -> String {
        match &self.named {
            Some(registry) => format!("run-evals sync {} --registry {}", self.id, quoted(registry)),
            None => format!("run-evals sync {}", self.id),
        }
    }
}

/// The source of a benchmark, with variables replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GitSource {
    /// The address of the repository.
    pub url: String,
    /// A branch, a tag or a commit; `None` for the default branch.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// The benchmarks of one registry.
#[derive(Debug, Clone)]
pub struct Registry {
    /// The registry file, which may not exist.
    pub path: PathBuf,
    /// The benchmarks, in file order.
    pub benchmarks: Vec<Benchmark>,
}

impl Registry {
    /// Reads the registry: the given file, or `benchmarks.yaml` and AgentV's `config.yaml` in `AGENTV_HOME` or `~/.agentv`.
    /// Returns the warnings rendered.
    pub fn find(named: Option<&Path>, env: &Env) -> Result<(Self, Vec<String>), Failure> {
        if let Some(path) = named {
            return Self::load(path, env);
        }
        let home = agentv_home(env)?;
        let (own, foreign) = (home.join(FILE), home.join(AGENTV_FILE));
        if !own.exists() && !foreign.exists() {
            let message = format!("no registry at `{}`", own.display());
            return Err(Failure::config(message).hint(
                "write one: `benchmarks: [{ id: refunds, path: ~/benchmarks/refunds, source: { url: https://github.com/o/r, ref: main } }]`, \
                 or name another with `--registry FILE`",
            ));
        }
        let mut reader = RegistryReader::new(env);
        if own.exists() {
            reader.read(&own)?;
        }
        if foreign.exists() {
            reader.read_foreign(&foreign)?;
        }
        reader.finish(own, None)
    }

    /// Reads one file, of either kind.
    pub fn load(path: &Path, env: &Env) -> Result<(Self, Vec<String>), Failure> {
        let path = std::path::absolute(path).map_err(|error| cannot_read(path, &error))?;
        let mut reader = RegistryReader::new(env);
        reader.read(&path)?;
        let named = path.clone();
        reader.finish(path, Some(&named))
    }

    /// The benchmark of this name.
    pub fn get(&self, id: &str) -> Option<&Benchmark> {
        self.benchmarks.iter().find(|benchmark| benchmark.id == id)
    }

    /// The benchmarks with these ids; without ids, those that can be synced, or all.
    pub fn choose(&self, ids: &[String], all: bool, with_local: bool) -> Result<Vec<&Benchmark>, Failure> {
        let known = || self.benchmarks.iter().map(|benchmark| benchmark.id.as_str());
        let listed = || {
            let ids: Vec<String> = known().map(|id| format!("`{id}`")).collect();
            if ids.is_empty() {
                "the registry is empty".to_owned()
            } else {
                format!("there are {}", ids.join(", "))
            }
        };
        if ids.is_empty() {
            if !all && !with_local {
                let message = "name the benchmarks to sync, or use `--all`";
                return Err(Failure::new(Exit::Usage, message).hint(listed()));
            }
            let is_chosen = |benchmark: &&Benchmark| with_local || benchmark.source.is_some();
            return Ok(self.benchmarks.iter().filter(is_chosen).collect());
        }
        let mut chosen: Vec<&Benchmark> = Vec::new();
        for id in ids {
            let Some(benchmark) = self.get(id) else {
                let near = did_you_mean(id, known()).map(|near| format!("did you mean `{near}`?"));
                let message = format!("no benchmark `{}` in `{}`", printable(id), self.path.display());
                return Err(Failure::config(message).hint(near.unwrap_or_else(listed)));
            };
            if !chosen.iter().any(|known| known.id == benchmark.id) {
                chosen.push(benchmark);
            }
        }
        Ok(chosen)
    }
}

/// Collects entries and problems over the files of a registry.
pub(super) struct RegistryReader<'e> {
    pub(super) env: &'e Env,
    pub(super) problems: Problems,
    found: Vec<(Benchmark, Span)>,
}

impl<'e> RegistryReader<'e> {
    fn new(env: &'e Env) -> Self {
        Self { env, problems: Problems::default(), found: Vec::new() }
    }

    fn read(&mut self, path: &Path) -> Result<(), Failure> {
        let document = document(path)?;
        let Some(mut fields) = document.root.fields("registry", &mut self.problems) else { return Ok(()) };
        match fields.list("benchmarks", &mut self.problems) {
            Some(items) => {
                for item in items {
                    if let Some(benchmark) = entry::read(item, path, self) {
                        self.add(benchmark, &item.span);
                    }
                }
            }
            None if fields.get("projects").is_some() => self.projects(&document, path)?,
            None if fields.get("benchmarks").is_some() => {}
            None if has_key(&document, "benchmarks") || has_key(&document, "projects") => {}
            None => self.problems.error_with_hint(
                &document.root.span,
                "a registry needs a list `benchmarks`",
                "write `benchmarks: [{ id: …, path: …, source: { url: …, ref: … } }]`",
            ),
        }
        Ok(())
    }

    /// AgentV's own file, in which only `projects` is read.
    fn read_foreign(&mut self, path: &Path) -> Result<(), Failure> {
        let document = document(path)?;
        if has_key(&document, "projects") { self.projects(&document, path) } else { Ok(()) }
    }

    fn projects(&mut self, document: &Document, path: &Path) -> Result<(), Failure> {
        for (project, span) in agentv::projects(document, path, self)? {
            // The same benchmark in both files counts once.
            let twin = self
                .found
                .iter()
                .find(|(known, _)| known.id == project.id && known.registry != project.registry);
            match twin {
                Some((known, _)) if known.path == project.path => {}
                Some((known, _)) => {
                    let message = format!(
                        "`{}` is also in `{}`, which takes precedence",
                        project.id,
                        known.registry.display()
                    );
                    self.problems.warning(&span, message, None);
                }
                None => self.add(project, &span),
            }
        }
        Ok(())
    }

    fn add(&mut self, benchmark: Benchmark, span: &Span) {
        for (known, before) in &self.found {
            let line = before.line;
            if known.id == benchmark.id {
                let message =
                    format!("two benchmarks have the id `{}`, the first on line {line}", benchmark.id);
                self.problems.error_with_hint(span, message, "give each a unique id");
            } else if known.path == benchmark.path {
                let message = format!(
                    "`{}` and `{}` have the same path, `{}`",
                    known.id,
                    benchmark.id,
                    benchmark.path.display()
                );
                self.problems.error_with_hint(span, message, "give each a separate directory");
            } else if known.path.starts_with(&benchmark.path) || benchmark.path.starts_with(&known.path) {
                let message = format!(
                    "the paths of `{}` and `{}` overlap: one contains the other",
                    known.id, benchmark.id
                );
                self.problems.error_with_hint(span, message, "give each a separate directory");
            }
        }
        self.found.push((benchmark, span.clone()));
    }

    fn finish(self, path: PathBuf, named: Option<&Path>) -> Result<(Registry, Vec<String>), Failure> {
        let warnings = self.problems.finish()?;
        let benchmarks = self
            .found
            .into_iter()
            .map(|(benchmark, _)| Benchmark { named: named.map(Path::to_path_buf), ..benchmark });
        let benchmarks = benchmarks.collect();
        Ok((Registry { path, benchmarks }, warnings))
    }
}

/// AgentV's home directory.
pub(super) fn agentv_home(env: &Env) -> Result<PathBuf, Failure> {
    if let Some(home) = env.process().get("AGENTV_HOME") {
        let home = expand(home, env).map_err(Failure::config)?;
        return std::path::absolute(&home).map_err(|error| cannot_read(&home, &error));
    }
    let home = env.process().get("HOME").ok_or_else(|| {
        Failure::config("`HOME` is not set, so `.agentv` cannot be found")
            .hint("set `AGENTV_HOME`, or pass a file with `--registry`")
    })?;
    Ok(Path::new(home).join(".agentv"))
}

/// The path with a leading `~` expanded.
pub(super) fn expand(path: &str, env: &Env) -> Result<PathBuf, String> {
    let rest = match path.strip_prefix('~') {
        Some("") => "",
        Some(rest) if rest.starts_with('/') => &rest[1..],
        Some(_) => return Err(format!("`{path}`: only `~/` is expanded, not another user's home")),
        None => return Ok(PathBuf::from(path)),
    };
    let home = env.process().get("HOME").ok_or_else(|| format!("`{path}`: `HOME` is not set"))?;
    Ok(Path::new(home).join(rest))
}

pub(super) fn document(path: &Path) -> Result<Document, Failure> {
    let bytes = std::fs::read(path).map_err(|error| cannot_read(path, &error))?;
    let cwd = std::env::current_dir().unwrap_or_default();
    let file = File::decode(crate::config::shown(path, &cwd), bytes)?;
    Ok(Document::parse(file.path, address::masked(&file.text))?)
}

fn has_key(document: &Document, name: &str) -> bool {
    document.root.entries().unwrap_or_default().iter().any(|(key, _)| key.text == name)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::config(format!("cannot read the registry `{}`: {error}", path.display()))
        .hint("`--registry FILE` names another")
}
