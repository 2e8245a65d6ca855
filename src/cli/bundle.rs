//! `bundle`: a suite in, a directory out that runs anywhere; and bundles in the place of suites.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;
use tempfile::TempDir;

use super::args::{BundleArgs, BundleCommand, Format};
use super::display::Display;
use super::{actions, attach, display, inputs, verify_run};
use crate::bundle::{self, Capture, Manifest, Placed, Plan, Request, State};
use crate::model::{Digest, Exit, Failure, printable};

/// A suite that a bundle may hold, which an archive is unpacked for.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    _unpacked: Option<TempDir>,
}

/// The suite that was named; that of a bundle, where the directory or the archive of one was.
pub(super) fn open(path: PathBuf) -> anyhow::Result<Opened> {
    if path.is_dir()
        && let Some(dir) = bundle::bundle_of(&path)
    {
        return Ok(Opened { path: bundle::suite_of(&dir), _unpacked: None });
    }
    if !is_archive(&path) {
        return Ok(Opened { path, _unpacked: None });
    }
    let temporary = unpacked(&path)?;
    Ok(Opened { path: bundle::suite_of(&temporary.path().join("bundle")), _unpacked: Some(temporary) })
}

pub(super) async fn bundle(args: BundleArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(BundleCommand::Verify { bundle, format }) = &args.command {
        return verify(bundle, *format);
    }
    let suite = args.suite.as_deref().context("clap wants a suite")?;
    let Some(out) = &args.output else { return check(suite, &args, display) };
    let suite_is_archive = is_archive(suite);
    let unpacked = if suite_is_archive { Some(unpacked(suite)?) } else { None };
    let bundled = match &unpacked {
        Some(temporary) => Some(temporary.path().join("bundle")),
        None => bundle::bundle_of(suite),
    };
    let (placed, manifest) = if let Some(dir) = bundled {
        bundle::copy(&dir, out, args.force)?
    } else {
        let plan = plan(suite, &args, Some(out))?;
        display.warnings(&plan.warnings);
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
        attach::attach(&path, &manifest.name, display).await?;
    }
    print(&manifest, &path, &digest, placed, args.format)?;
    if args.verify_run {
        return verify_run::verify_run(out, args.format, display).await;
    }
    Ok(Exit::Ok)
}

/// What would not travel.
fn check(suite: &Path, args: &BundleArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(dir) = bundle::bundle_of(suite) {
        return verify(&dir, args.format);
    }
    let plan = plan(suite, args, None)?;
    display.warnings(&plan.warnings);
    let manifest = plan.manifest();
    match args.format {
        Format::Json => display::json(&format!("{:#}\n", json!({ "left_behind": manifest.left_behind })))?,
        Format::Text => display::stdout(&left_behind(manifest))?,
    }
    if plan.warnings.is_empty() {
        return Ok(Exit::Ok);
    }
    let count = plan.warnings.len();
    let what = if count == 1 { "1 thing".to_owned() } else { format!("{count} things") };
    Err(Failure::config(format!("{what} would not travel as it stands"))
        .hint("the warnings above tell how to mend it")
        .into())
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
    })
}

fn verify(path: &Path, format: Format) -> anyhow::Result<Exit> {
    let temporary;
    let dir = if is_archive(path) {
        temporary = unpacked(path)?;
        temporary.path().join("bundle")
    } else {
        path.to_owned()
    };
    let verified = bundle::verify(&dir)?;
    let (files, sha256) = (verified.manifest.files.len(), verified.sha256);
    match format {
        Format::Json => {
            let json = json!({ "bundle": path, "files": files, "manifest_sha256": sha256 });
            display::json(&format!("{json:#}\n"))?;
        }
        Format::Text => {
            display::stdout(&format!("{} is sound: {files} files, manifest {sha256}\n", path.display()))?;
        }
    }
    Ok(Exit::Ok)
}

fn unpacked(archive: &Path) -> anyhow::Result<TempDir> {
    let temporary = tempfile::Builder::new().prefix("run-evals-bundle-").tempdir()?;
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
) -> anyhow::Result<()> {
    if format == Format::Json {
        let json = json!({
            "bundle": path,
            "sha256": digest,
            "unchanged": placed == Placed::Unchanged,
            "name": manifest.name,
            "tests": manifest.tests,
            "targets": manifest.targets,
            "files": manifest.files.len(),
            "env": manifest.env,
            "left_behind": manifest.left_behind,
        });
        return display::json(&format!("{json:#}\n"));
    }
    let mut text = String::new();
    let unchanged = if placed == Placed::Unchanged { ", unchanged" } else { "" };
    let _ = writeln!(text, "bundle   {}{unchanged}", path.display());
    let _ = writeln!(text, "sha256   {digest}");
    let targets = if manifest.targets.is_empty() { "none".to_owned() } else { manifest.targets.join(", ") };
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
    display::stdout(&text)
}

fn left_behind(manifest: &Manifest) -> String {
    let mut text = String::new();
    if !manifest.left_behind.is_empty() {
        text.push_str("\nleft behind:\n");
    }
    for left in &manifest.left_behind {
        let _ = writeln!(text, "  {}: {}", printable(&left.what), printable(&left.why));
    }
    text
}
