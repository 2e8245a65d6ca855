//! `bundle`: compiles a suite into a self-contained directory, and checks one.

use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use super::args::{BundleArgs, BundleCommand, Format};
use super::display::Display;
pub(super) use crate::bundle::open;
use crate::bundle::{self, Capture, Plan, Request, UnpackedArchive, WrittenBundle};
use crate::console::{self, actions};
use crate::engine::inputs;
use crate::model::{Digest, Exit, Failure};

pub(super) async fn bundle(args: BundleArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(BundleCommand::Verify { bundle, sha256, format }) = &args.command {
        return verify(bundle, sha256.as_ref(), *format);
    }
    let suite = args.suite.as_deref().context("clap requires a suite")?;
    let Some(out) = &args.output else { return check(suite, &args, display) };
    let unpacked = UnpackedArchive::open(suite)?;
    let bundled = unpacked.as_ref().map(UnpackedArchive::bundle).or_else(|| bundle::bundle_of(suite));
    let bundled_suite = bundled.as_deref().map(bundle::suite_of);
    let (placed, manifest) = if let Some(dir) = bundled {
        bundle::copy(&dir, out, args.force)?
    } else {
        let plan = plan(suite, &args, Some(out))?;
        warnings(&plan, display);
        plan.write(out, args.force)?
    };
    let sha256 = Digest::of(manifest.to_text().as_bytes());
    let mut written = WrittenBundle { path: out.clone(), sha256, placed, manifest };
    if args.archive {
        written.path = out.with_added_extension("tar.gz");
        written.sha256 = bundle::pack(out, &written.path)?;
    }
    actions::outputs(&[
        ("bundle-path", written.path.display().to_string()),
        ("bundle-sha256", written.sha256.to_string()),
    ])?;
    if args.archive {
        bundle::upload_artifact(&written.path, &written.manifest.name, display).await?;
    }
    if !args.verify_run {
        args.format.print(&written.to_json(), || written.to_text())?;
        return Ok(Exit::Ok);
    }
    if args.format == Format::Text {
        console::stdout(&written.to_text())?;
    }
    let suite = bundled_suite.as_deref().unwrap_or(suite);
    let compared = bundle::verify_run(suite, out, written.manifest.agentv.as_deref(), display)?;
    let mut json = written.to_json();
    json["verify_run"] = compared.to_json();
    args.format.print(&json, || compared.to_text())?;
    Ok(compared.exit())
}

fn verify(path: &Path, expected: Option<&Digest>, format: Format) -> anyhow::Result<Exit> {
    let verified = bundle::verify_digest(path, expected)?;
    format.print(&verified.to_json(path), || verified.to_text(path))?;
    Ok(Exit::Ok)
}

/// Reports what cannot be bundled.
fn check(suite: &Path, args: &BundleArgs, display: &Display) -> anyhow::Result<Exit> {
    if let Some(dir) = bundle::bundle_of(suite) {
        return verify(&dir, None, args.format);
    }
    let plan = plan(suite, args, None)?;
    warnings(&plan, display);
    let manifest = plan.manifest();
    let json = json!({ "left_behind": manifest.left_behind });
    args.format.print(&json, || bundle::render_left_behind(manifest))?;
    if plan.warnings.is_empty() {
        return Ok(Exit::Ok);
    }
    let count = plan.warnings.len();
    let what = if count == 1 { "1 thing".to_owned() } else { format!("{count} things") };
    Err(Failure::config(format!("{what} cannot be bundled as is"))
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
