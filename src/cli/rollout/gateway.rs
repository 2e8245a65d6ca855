//! The trace gateway that `serve --traces` mounts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::args::ServeArgs;
use crate::cli::display::Display;
use crate::config::Env;
use crate::engine::inputs;
use crate::rollout::gateway::{Gateway, GatewayOptions};

const DAY: Duration = Duration::from_hours(24);

/// The gateway of the command line, if there is one.
pub(in crate::cli) fn gateway(
    args: &ServeArgs,
    (cwd, env): (&Path, &Env),
    display: &Display,
) -> anyhow::Result<Option<Arc<Gateway>>> {
    let (file, args) = (args.targets.targets.as_deref(), &args.traces);
    let Some(dir) = &args.traces else { return Ok(None) };
    let targets = inputs::targets_file(file, cwd, cwd, display)?;
    let upstreams = args.trace_upstream.iter().map(|name| inputs::runner_target(&targets, name, env));
    let upstreams = upstreams.collect::<anyhow::Result<Vec<_>>>()?;
    let names: Vec<String> = upstreams.iter().map(|target| format!("`{}`", target.name)).collect();
    let options = GatewayOptions {
        keep: DAY * args.keep_traces,
        upstreams,
        fields: args.trace_field.clone(),
        body_within: args.trace_body_timeout,
    };
    let gateway = Gateway::open(dir, options)?;
    display.note(&format!(
        "traces: {} (kept {} days), upstream {}",
        dir.display(),
        args.keep_traces,
        names.join(", ")
    ));
    Ok(Some(gateway))
}
