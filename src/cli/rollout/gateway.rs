//! The trace gateway that `serve --traces` mounts.

use std::sync::Arc;
use std::time::Duration;

use crate::cli::args::TraceArgs;
use crate::cli::display::Display;
use crate::cli::inputs;
use crate::model::Secret;
use crate::rollout::gateway::Gateway;

const DAY: Duration = Duration::from_hours(24);

/// The gateway that the command line asks for, if it does.
pub(in crate::cli) fn gateway(
    args: &TraceArgs,
    secrets: &[Secret],
    display: &Display,
) -> anyhow::Result<Option<Arc<Gateway>>> {
    let Some(dir) = &args.traces else { return Ok(None) };
    let cwd = std::env::current_dir()?;
    let env = inputs::environment(&cwd, &cwd)?;
    let targets = inputs::targets_file(args.trace_targets.as_deref(), &cwd, &cwd, display)?;
    let upstreams = args.trace_upstream.iter().map(|name| inputs::runner_target(&targets, name, &env));
    let upstreams = upstreams.collect::<anyhow::Result<Vec<_>>>()?;
    let names: Vec<String> = upstreams.iter().map(|target| format!("`{}`", target.name)).collect();
    let gateway = Gateway::open(dir, DAY * args.keep_traces, upstreams, secrets)?;
    display.note(&format!(
        "traces: {} (kept {} days), upstream {}",
        dir.display(),
        args.keep_traces,
        names.join(", ")
    ));
    Ok(Some(gateway))
}
