//! Compiles a suite and everything it refers to into a self-contained directory.
//!
//! `suite` rewrites the tree that `crate::suite` reads, with `cases`, `assertions`, `workspace` and `targets` for its parts; each collects
//! the files that it finds (`files`, `ignore`, `included`) and rewrites the references in the `tree`. `command` and
//! `needs` find what a command runs and its dependencies. `variables` are the references that stay in the bundle. `emit` writes the
//! trees, `write` creates the directory, `manifest` describes it, `verify` checks it, `pack` makes an archive, and `upload_artifact` an artifact of the workflow run.
//! `find` lists the given suites, `open` reads bundles in place of suites, `verify_run` compares the scores of a suite and its bundle, `render` has the output of the command.

mod agentv;
mod assertions;
mod cases;
mod command;
mod compiler;
mod emit;
mod files;
mod find;
mod git_call;
mod git_text;
mod ignore;
mod included;
mod manifest;
mod needs;
mod node_packages;
mod open;
mod pack;
mod python;
mod render;
mod repository_use;
mod script_text;
mod shell;
mod suite;
mod targets;
mod tree;
mod upload_artifact;
mod variables;
mod verify;
mod verify_run;
mod workspace;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use anyhow::Context as _;
use jiff::Timestamp;

pub use self::find::{find_suites, folder_of};
pub use self::manifest::{Manifest, Provenance};
pub use self::open::{OpenSuite, UnpackedArchive, open, verify_digest};
pub use self::pack::pack;
pub use self::render::{WrittenBundle, render_left_behind};
pub use self::upload_artifact::upload_artifact;
pub use self::variables::{Capture, State};
pub use self::verify::{VerifiedBundle, verify};
pub use self::verify_run::verify_run;
pub use self::write::WriteOutcome;

use self::compiler::{Compiler, SuitePaths};
use self::files::{BundleEntry, Files, LeftBehind, include_hint};
use self::included::Included;
use self::variables::{Forbidden, check_text, forbidden};
use self::write::Draft;
use crate::config::{Env, Node, NodeValue, Source, Span, normalized, shown};
use crate::git::Worktree;
use crate::model::{Failure, printable};
use crate::suite::{Format, Lookup};
use crate::util::secrets::find_secret;

const MANIFEST: &str = "manifest.json";
const EVAL: &str = "eval.yaml";
const TARGETS: &str = "targets.yaml";

/// What to bundle, and how.
#[derive(Debug)]
pub struct Request<'a> {
    /// The suite.
    pub suite: &'a Path,
    /// The targets file, if it is not the nearest one.
    pub targets: Option<&'a Path>,
    /// Targets to include besides those that the suite names.
    pub more_targets: &'a [String],
    /// The repository, if it is not the git repository.
    pub root: Option<&'a Path>,
    /// Which variables are written into the bundle.
    pub capture: Capture,
    /// The environment.
    pub env: &'a Env,
    /// The working directory.
    pub cwd: &'a Path,
    /// The destination, which is not part of the bundle.
    pub out: Option<&'a Path>,
    /// Files to include although they look like credentials or git ignores them.
    pub include: &'a [PathBuf],
}

/// A bundle that is not written yet.
#[derive(Debug)]
pub struct Plan {
    entries: BTreeMap<String, BundleEntry>,
    manifest: Manifest,
    forbidden: Vec<Forbidden>,
    /// The rendered warnings.
    pub warnings: Vec<String>,
}

impl Plan {
    /// Reads a suite and everything it refers to; reports all problems of all files at once. Writes nothing.
    pub fn new(request: &Request) -> anyhow::Result<Self> {
        let format = Format::of_suite(request.suite)?;
        // References of a suite that is a link are relative to the link, as in AgentV.
        let path = normalized(&request.cwd.join(request.suite));
        let dir = path.parent().context("a file has a directory")?;
        let (dir, _) = dir.canonicalize().and_then(|dir| Ok((dir, path.metadata()?))).map_err(|error| {
            Failure::config(format!("cannot read the suite `{}`: {error}", request.suite.display()))
                .hint("check the path, which is relative to the working directory")
        })?;
        let suite = dir.join(path.file_name().context("a file has a name")?);
        let cwd = request.cwd.canonicalize().context("cannot find the working directory")?;
        let worktree = Worktree::of(&dir)?;
        let root = match (request.root, &worktree) {
            (Some(root), _) => cwd
                .join(root)
                .canonicalize()
                .map_err(|error| Failure::config(format!("cannot read `{}`: {error}", root.display())))?,
            (None, Some(worktree)) => worktree.root.canonicalize().context("cannot find the repository")?,
            (None, None) => dir.clone(),
        };
        if !suite.starts_with(&root) {
            let message = format!("the suite `{}` is not in `{}`", request.suite.display(), root.display());
            return Err(Failure::config(message).hint("`--root` must be a directory above the suite").into());
        }
        let included = Included::new(request.include, &cwd, &root)?;
        let by_git = worktree.as_ref().map(Worktree::ignored).transpose()?.unwrap_or_default();
        // A working directory outside the repository cannot be included.
        let cwd = if cwd.starts_with(&root) { cwd } else { root.clone() };
        let exclude = request.out.map(|out| normalized(&request.cwd.join(out)));
        let exclude: Vec<PathBuf> = exclude
            .into_iter()
            .flat_map(|out| [out.with_added_extension("tar.gz"), runs_of(&out), out])
            .collect();
        let files = Files::new(root.clone(), exclude, included, by_git);
        let mut compiler =
            Compiler::new(request.env, SuitePaths { root, suite }, Lookup::new(dir, cwd), files);
        compiler.compile(format, request, worktree.as_ref())
    }

    /// The message that the bundle differs from the commit, if it does.
    pub fn difference(&self) -> Option<String> {
        const SHOWN: usize = 5;
        let Provenance { commit, changed, .. } = &self.manifest.source;
        let commit = commit.as_deref().filter(|_| !changed.is_empty())?;
        let mut names: Vec<String> =
            changed.iter().take(SHOWN).map(|name| format!("  {}", printable(name))).collect();
        if changed.len() > SHOWN {
            names.push(format!("  and {} more", changed.len() - SHOWN));
        }
        let count = if changed.len() == 1 {
            "1 file differs".to_owned()
        } else {
            format!("{} files differ", changed.len())
        };
        let commit = commit.get(..12).unwrap_or(commit);
        let hint = "hint: commit them, so that others can reproduce the bundle";
        Some(format!("{count} from commit {commit}:\n{}\n\n{hint}", names.join("\n")))
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Writes it atomically; replaces another bundle only by force.
    pub fn write(mut self, out: &Path, force: bool) -> anyhow::Result<(WriteOutcome, Manifest)> {
        let draft = Draft::begin(out)?;
        self.manifest.files = draft.write(&self.entries, &self.forbidden)?;
        let placed = draft.finish(&self.manifest, force)?;
        Ok((placed, self.manifest))
    }
}

impl Compiler<'_> {
    fn compile(
        &mut self,
        format: Format,
        request: &Request,
        worktree: Option<&Worktree>,
    ) -> anyhow::Result<Plan> {
        let mut eval = self.suite(format);
        let mut targets = self.targets(request.targets, request.more_targets);
        let (mut variables, mut secrets) = (Vec::new(), Vec::new());
        if let Some(eval) = &mut eval {
            self.link_scripts(eval);
            let at = eval.span.clone();
            let mut trees = vec![(EVAL, eval)];
            trees.extend(targets.as_mut().map(|targets| (TARGETS, targets)));
            variables = self.variables(&mut trees, &request.capture);
            secrets = forbidden(self.env, &request.capture, &variables);
            for (file, tree) in trees {
                let text = emit::document(tree);
                check_text(&text, file, &secrets, &at, &mut self.problems);
                self.check_inlined(&text, file);
                let source = if file == EVAL { self.files.relative(&self.places.suite) } else { None };
                self.files
                    .entries
                    .insert(file.to_owned(), BundleEntry::Made { content: text.into_bytes(), source });
            }
            self.files.finish(&at, &mut self.problems);
        }
        let warnings = std::mem::take(&mut self.problems).finish().map_err(Failure::from)?;
        self.files.included.finish()?;
        let eval = eval.context("a suite without a problem has a tree")?;
        let entries = std::mem::take(&mut self.files.entries);
        let sources: BTreeSet<String> = entries
            .values()
            .filter_map(|entry| match entry {
                BundleEntry::Copy { source, .. } => Some(source.clone()),
                BundleEntry::Link { source, .. } | BundleEntry::Made { source, .. } => source.clone(),
            })
            .chain(self.inlined.keys().cloned())
            .collect();
        let required = tree::get(&eval, "requires").and_then(|requires| tree::get_str(requires, "agentv"));
        let suite = self.files.relative(&self.places.suite).unwrap_or_default();
        let manifest = Manifest {
            format: manifest::FORMAT,
            run_evals: env!("CARGO_PKG_VERSION").to_owned(),
            agentv: agentv::version(&self.lookup.dir, &self.places.root),
            agentv_required: manifest::agentv_required(required, &self.lookup.dir, &self.places.root),
            name: tree::get_str(&eval, "name").unwrap_or("eval").to_owned(),
            tests: tree::get(&eval, "tests").and_then(Node::items).unwrap_or_default().len() as u64,
            targets: names(targets.as_ref()),
            created: created(self.env, worktree, &self.places.root, &sources)?,
            source: Provenance::new(suite, worktree, &self.places.root, &sources),
            flags: flags(request, &self.files),
            env: variables,
            left_behind: left_behind(std::mem::take(&mut self.files.left), &sources),
            inlined: manifest::inlined(&self.inlined),
            files: Vec::new(),
        };
        Ok(Plan { entries, manifest, forbidden: secrets, warnings })
    }
}

impl Compiler<'_> {
    /// Rejects a key that a file has brought into the suite or the targets. Its line is not shown, because it contains the key.
    fn check_inlined(&mut self, text: &str, file: &str) {
        if find_secret(Path::new(file), text.as_bytes()).is_none() {
            return;
        }
        for (path, found) in std::mem::take(&mut self.suspects) {
            if self.files.included.has(&path) {
                continue;
            }
            let source = self.files.relative(&path).unwrap_or_default();
            let line = u32::try_from(found.line).unwrap_or(u32::MAX);
            let shown = Source { path: shown(&path, &self.lookup.cwd), text: String::new() };
            let at = Span { source: Arc::new(shown), line, column: 1, width: 1 };
            let message = format!("`{source}:{}` appears to contain {}", found.line, found.what);
            self.problems.error_with_hint(&at, message, include_hint(&source));
        }
    }
}

/// Whether a directory looks like a bundle.
pub fn is_bundle(dir: &Path) -> bool {
    dir.join(EVAL).is_file()
        && verify::read_manifest(dir).is_ok_and(|text| Manifest::parse(&text, dir).is_ok())
}

/// The directory of a bundle, if this is one, or its suite.
pub fn bundle_of(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return is_bundle(path).then(|| path.to_owned());
    }
    let dir = path.parent().filter(|_| path.file_name().is_some_and(|name| name == EVAL))?;
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    is_bundle(dir).then(|| dir.to_owned())
}

/// The suite of a bundle.
pub fn suite_of(dir: &Path) -> PathBuf {
    dir.join(EVAL)
}

/// The directory for the results of runs that compare a bundle with its source.
pub fn runs_of(out: &Path) -> PathBuf {
    out.with_added_extension("verify-run")
}

/// A bundle of a bundle is a verified copy: the same bytes.
pub fn copy(from: &Path, out: &Path, force: bool) -> anyhow::Result<(WriteOutcome, Manifest)> {
    let verified = verify(from)?;
    if from.canonicalize().ok() == out.canonicalize().ok() {
        return Ok((WriteOutcome::Unchanged, verified.manifest));
    }
    let draft = Draft::begin(out)?;
    let mut entries = BTreeMap::new();
    for file in &verified.manifest.files {
        let source = file.source.clone();
        let entry = match &file.content {
            manifest::Content::Link { link } => BundleEntry::Link { target: link.clone(), source },
            manifest::Content::File { mode, .. } => BundleEntry::Copy {
                from: from.join(&file.path),
                source: source.unwrap_or_default(),
                executable: mode == "0755",
            },
        };
        entries.insert(file.path.clone(), entry);
    }
    draft.write(&entries, &[])?;
    let placed = draft.finish(&verified.manifest, force)?;
    Ok((placed, verified.manifest))
}

/// What is left behind, except what another reference included after all.
fn left_behind(left: BTreeSet<LeftBehind>, sources: &BTreeSet<String>) -> Vec<LeftBehind> {
    let travels = |one: &LeftBehind| {
        let within = format!("{}/", one.what);
        sources.contains(&one.what)
            || sources.range(within.clone()..).next().is_some_and(|path| path.starts_with(&within))
    };
    left.into_iter().filter(|one| one.why != ignore::BY_GIT || !travels(one)).collect()
}

fn names(targets: Option<&Node>) -> Vec<String> {
    let list = targets.and_then(|targets| tree::get(targets, "targets"));
    let items =
        list.map_or(&[][..], |list| if let NodeValue::List(items) = &list.value { items } else { &[] });
    items.iter().filter_map(|target| tree::get_str(target, "name")).map(ToOwned::to_owned).collect()
}

/// The creation time, as far as it is reproducible.
fn created(
    env: &Env,
    worktree: Option<&Worktree>,
    root: &Path,
    sources: &BTreeSet<String>,
) -> anyhow::Result<Timestamp> {
    if let Some(text) = env.get("SOURCE_DATE_EPOCH") {
        let time = text.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        let invalid = || Failure::config(format!("`SOURCE_DATE_EPOCH` is not a number of seconds: `{text}`"));
        return Ok(time.ok_or_else(invalid)?);
    }
    let commit = worktree.and_then(|worktree| worktree.commit.as_ref());
    if let Some(time) = commit.and_then(|(_, time)| Timestamp::from_second(*time).ok()) {
        return Ok(time);
    }
    let changed =
        sources.iter().filter_map(|source| root.join(source).symlink_metadata().ok()?.modified().ok());
    let last = changed.max().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let seconds = last.and_then(|time| i64::try_from(time.as_secs()).ok()).unwrap_or_default();
    Ok(Timestamp::from_second(seconds).unwrap_or_default())
}

/// The options that affect the content of a bundle.
fn flags(request: &Request, files: &Files) -> Vec<String> {
    let mut flags: Vec<String> = request.more_targets.iter().map(|name| format!("--target={name}")).collect();
    if let Some(targets) = request.targets.and_then(Path::file_name) {
        flags.push(format!("--targets={}", targets.display()));
    }
    match &request.capture {
        Capture::Nothing => {}
        Capture::Harmless => flags.push("--capture-env".to_owned()),
        Capture::Named(names) => flags.push(format!("--capture-env={}", names.join(","))),
    }
    let included = files.included.paths().filter_map(|path| files.relative(path));
    flags.extend(included.map(|path| format!("--include={path}")));
    flags.sort();
    flags
}
