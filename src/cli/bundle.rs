//! `bundle`: a suite in, a directory out that runs anywhere; and bundles in the place of suites.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use super::args::{BundleArgs, BundleCommand, Format};
use super::display::Display;
use super::verify_run;
use crate::bundle::{self, Capture, Manifest, Placed, Plan, Request, State};
use crate::console::{self, actions};
use crate::engine::inputs;
use crate::model::{Digest, Exit, Failure, printable};
use crate::util::WorkDir;

/// A suite that a bundle may hold, which an archive is unpacked for.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    _unpacked: Option<WorkDir>,
}

/// The suite that was named; that of a bundle, where the directory or the archive of one was.
pub(super) fn open(path: PathBuf, display: &Display) -> anyhow::Result<Opened> {
    if path.is_dir()
        && let Some(dir) = bundle::bundle_of(&path)
    {
        let verified = bundle::verify(&dir)
            .map_err(|error| explained(error, "name its `eval.yaml` to use it as a suite like any other"))?;
        if !verified.beside.is_empty() {
            let names = printable(&verified.beside.join("`, `"));
            display.note(&format!("not part of the bundle `{}`: `{names}`", dir.display()));
        }
        return Ok(Opened { path: bundle::suite_of(&dir), _unpacked: None });
    }
    if !is_archive(&path) {
        return Ok(Opened { path, _unpacked: None });
    }
    let temporary = unpacked(&path)?;
    Ok(Opened { path: bundle::suite_of(&temporary.path().join("bundle")), _unpacked: Some(temporary) })
}

pub(super) async fn bundle(args: BundleArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(BundleCommand::Verify { bundle, sha256, format }) = &args.command {
        return verify(bundle, sha256.as_ref(), *format);
    }
    let suite = args.suite.as_deref().context("clap wants a suite")?;
    let Some(out) = &args.output else { return check(suite, &args, display) };
    let suite_is_archive = is_archive(suite);
    let unpacked = if suite_is_archive { Some(unpacked(suite)?) } else { None };
    let bundled = match &unpacked {
        Some(temporary) => Some(temporary.path().join("bundle")),
        None => bundle::bundle_of(suite),
    };
    let bundled_suite = bundled.as_deref().map(bundle::suite_of);
    let (placed, manifest) = if let Some(dir) = bundled {
        bundle::copy(&dir, out, args.force)?
    } else {
        let plan = plan(suite, &args, Some(out))?;
        warnings(&plan, display);
        plan.write(out, args.force)?
    };
    let mut digest = Digest::of(manifest.to_text().as_bytes());
    let mut path = out.clone();
    if args.archive {
        path = out.with_added_extension("tar.gz");
        digest = bundle::pack(out, &path)?;
    }
    actions::outputs(&[("bundle-path", path.display().to_string()), ("bundle-sha256", digest.to_string())])?;
    if args.archive {
        bundle::upload_artifact(&path, &manifest.name, display).await?;
    }
    let is_json = args.format == Format::Json;
    if !is_json || !args.verify_run {
        print(&manifest, &path, &digest, placed, args.format, None)?;
    }
    if args.verify_run {
        let suite = bundled_suite.as_deref().unwrap_or(suite);
        let compared = verify_run::verify_run(suite, out, manifest.agentv.as_deref(), display)?;
        if is_json {
            print(&manifest, &path, &digest, placed, args.format, Some(compared.to_json()))?;
        } else {
            console::stdout(&compared.to_text())?;
        }
        return Ok(compared.exit());
    }
    Ok(Exit::Ok)
}

/// What would not travel.
fn check(suite: &Path, args: &BundleArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(dir) = bundle::bundle_of(suite) {
        return verify(&dir, None, args.format);
    }
    let plan = plan(suite, args, None)?;
    warnings(&plan, display);
    let manifest = plan.manifest();
    match args.format {
        Format::Json => console::json(&format!("{:#}\n", json!({ "left_behind": manifest.left_behind })))?,
        Format::Text => console::stdout(&left_behind(manifest))?,
    }
    if plan.warnings.is_empty() {
        return Ok(Exit::Ok);
    }
    let count = plan.warnings.len();
    let what = if count == 1 { "1 thing".to_owned() } else { format!("{count} things") };
    Err(Failure::config(format!("{what} would not travel as it stands"))
        .hint("the warnings above say how to fix it")
        .into())
}

fn warnings(plan: &Plan, display: &Display) {
    display.warnings(&plan.warnings);
    if let Some(difference) = plan.difference() {
        display.warning(&difference);
    }
}

fn plan(suite: &Path, args: &BundleArgs, out: Option<&Path>) -> anyhow::Result<Plan> {
    let cwd = std::env::current_dir().context("cannot find the working directory")?;
    let near = cwd.join(suite).parent().map_or_else(|| cwd.clone(), Path::to_path_buf);
    let env = inputs::environment(&near, &cwd)?;
    let capture = match &args.capture_env {
        None => Capture::Nothing,
        Some(names) => {
            let names: Vec<String> =
                names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
            if names.is_empty() { Capture::Harmless } else { Capture::Named(names) }
        }
    };
    Plan::new(&Request {
        suite,
        targets: args.targets.as_deref(),
        more_targets: &args.target,
        root: args.root.as_deref(),
        capture,
        env: &env,
        cwd: &cwd,
        out,
        include: &args.include,
    })
}

fn verify(path: &Path, expected: Option<&Digest>, format: Format) -> anyhow::Result<Exit> {
    let temporary;
    let (dir, archive) = if is_archive(path) {
        temporary = unpacked(path)?;
        (temporary.path().join("bundle"), Some(bundle::file_digest(path)?))
    } else {
        (path.to_owned(), None)
    };
    let verified = bundle::verify(&dir)?;
    // The digest of the manifest covers everything too.
    let digests: Vec<Digest> = archive.into_iter().chain([verified.sha256]).collect();
    if let Some(expected) = expected.filter(|expected| !digests.contains(expected)) {
        let found: Vec<String> = digests.iter().map(ToString::to_string).collect();
        let message =
            format!("`{}` has the SHA-256 {}, expected {expected}", path.display(), found.join(" or "));
        let hint = match archive {
            Some(_) => "get the archive again from where the digest is from",
            None => {
                "a directory has the SHA-256 of its manifest; compare the archive itself with the digest of an archive"
            }
        };
        return Err(Failure::config(message).hint(hint).into());
    }
    let (files, sha256, beside) = (verified.manifest.files.len(), verified.sha256, verified.beside);
    match format {
        Format::Json => {
            let json =
                json!({ "bundle": path, "files": files, "manifest_sha256": sha256, "not_in_bundle": beside });
            console::json(&format!("{json:#}\n"))?;
        }
        Format::Text => {
            let mut text = format!("{} is sound: {files} files, manifest {sha256}\n", path.display());
            if !beside.is_empty() {
                text.push_str("\nnot part of the bundle, and not checked:\n");
            }
            for name in &beside {
                let _ = writeln!(text, "  {}: {}", printable(name), what_is_beside(name));
            }
            console::stdout(&text)?;
        }
    }
    Ok(Exit::Ok)
}

/// What something is that may be beside a bundle.
fn what_is_beside(name: &str) -> &'static str {
    match name {
        ".git" => "a git repository; keep it only if you cloned the bundle or made it yourself",
        ".env" => "variables for runs; keep it only if you wrote it yourself",
        _ => "left by runs; remove it if you have not run the bundle here",
    }
}

/// The error with a further hint.
fn explained(error: anyhow::Error, hint: &str) -> anyhow::Error {
    match error.downcast::<Failure>() {
        Ok(failure) => {
            let known = failure.hint_text().map(|known| format!("{known}, or {hint}"));
            failure.hint(known.unwrap_or_else(|| hint.to_owned())).into()
        }
        Err(error) => error,
    }
}

fn unpacked(archive: &Path) -> anyhow::Result<WorkDir> {
    let temporary = WorkDir::new()?;
    let dir = temporary.path().join("bundle");
    std::fs::create_dir(&dir)?;
    bundle::unpack(archive, &dir)?;
    Ok(temporary)
}

fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.is_file() && [".tar.gz", ".tgz"].iter().any(|ending| name.ends_with(ending))
}

fn print(
    manifest: &Manifest,
    path: &Path,
    digest: &Digest,
    placed: Placed,
    format: Format,
    verify_run: Option<serde_json::Value>,
) -> anyhow::Result<()> {
    if format == Format::Json {
        let mut json = json!({
            "bundle": path,
            "sha256": digest,
            "unchanged": placed == Placed::Unchanged,
            "name": manifest.name,
            "tests": manifest.tests,
            "targets": manifest.targets,
            "files": manifest.files.len(),
            "env": manifest.env,
            "left_behind": manifest.left_behind,
            "agentv": manifest.agentv,
            "manifest_sha256": Digest::of(manifest.to_text().as_bytes()),
        });
        if let Some(verify_run) = verify_run {
            json["verify_run"] = verify_run;
        }
        return console::json(&format!("{json:#}\n"));
    }
    let mut text = String::new();
    let unchanged = if placed == Placed::Unchanged { ", unchanged" } else { "" };
    let _ = writeln!(text, "bundle   {}{unchanged}", path.display());
    let _ = writeln!(text, "sha256   {digest}");
    let targets = if manifest.targets.is_empty() { "none".to_owned() } else { manifest.targets.join(", ") };
    let _ = writeln!(text, "agentv   {}", manifest.agentv.as_deref().unwrap_or("unknown"));
    let _ = writeln!(text, "tests    {}", manifest.tests);
    let _ = writeln!(text, "targets  {}", printable(&targets));
    let _ = writeln!(text, "files    {}", manifest.files.len());
    let named = |states: &[State]| {
        let names = manifest.env.iter().filter(|variable| states.contains(&variable.state));
        names.map(|variable| variable.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    for (label, states) in [
        ("set      ", &[State::Reference, State::Redacted][..]),
        ("captured ", &[State::Captured]),
        ("resolved ", &[State::Resolved]),
    ] {
        let names = named(states);
        if !names.is_empty() {
            let _ = writeln!(text, "{label}{names}");
        }
    }
    text.push_str(&left_behind(manifest));
    console::stdout(&text)
}

fn left_behind(manifest: &Manifest) -> String {
    let mut text = String::new();
    if !manifest.left_behind.is_empty() {
        text.push_str("\nleft behind:\n");
    }
    for left in &manifest.left_behind {
        let place = left.file.as_deref().zip(left.line).map(|(file, line)| format!(" ({file}:{line})"));
        let place = printable(&place.unwrap_or_default());
        let _ = writeln!(text, "  {}: {}{place}", printable(&left.what), printable(&left.why));
    }
    text
}
