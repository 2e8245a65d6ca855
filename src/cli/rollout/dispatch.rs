//! `rollout dispatch`: the client of the contract.

use serde_json::{Map, Value, json};

use crate::cli::args::{Format, RolloutDispatchArgs};
use crate::cli::display::Display;
use crate::console::{self, actions, signals};
use crate::engine::{Progress, inputs, observe};
use crate::model::{Exit, Failure, Secret};
use crate::rollout::dispatch::{DispatchOptions, DispatchProgress, dispatch as run, read_rows};
use crate::rollout::{Endpoint, KEY, check_base_url};

/// The variables for the tracing endpoint's key; the first two are Eval Protocol's.
const KEYS: [&str; 3] = ["EP_REMOTE_API_KEY", "FIREWORKS_API_KEY", KEY];
const USUAL_CONCURRENCY: usize = 20;

pub(super) async fn dispatch(args: RolloutDispatchArgs, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir()?;
    let env = inputs::environment(&cwd, &cwd)?;
    let rows = read_rows(&args.rows, &completion_params(&args)?)?;
    let base = check_base_url(&args.model_base_url)?;
    let targets = inputs::targets_file(args.targets.as_deref(), &cwd, &cwd, display)?;
    let target = inputs::remote_target(&targets, args.target.as_deref().unwrap_or("default"), &env)?;
    let key = KEYS.iter().find_map(|name| env.process().get(name)).map(Secret::new);
    if args.send_key && key.is_none() {
        let message = format!("`--send-key` has no key to send: none of `{}` is set", KEYS.join("`, `"));
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let client = args.github.client(env.process(), display)?;
    let options = DispatchOptions {
        target,
        endpoint: Endpoint::new(base, key.clone(), &[])?,
        sent_key: key.filter(|_| args.send_key),
        batch: args.batch,
        max_concurrency: args.max_concurrency.map_or(USUAL_CONCURRENCY, |most| most.get() as usize),
        experiment_id: args.experiment_id.clone(),
        output: args.output.clone(),
        grace: args.grace,
        tell: Box::new({
            let display = display.clone();
            move |text| display.note(text)
        }),
    };
    let count = rows.0.len();
    let progress = DispatchProgress::default();
    let interrupts = signals::interrupts()?;
    let work = run(&client, rows, options, &progress, interrupts);
    let done = {
        let view = || {
            let (done, total) = progress.rows.get();
            Progress { name: "rollouts".to_owned(), done, total, state: progress.state.borrow().clone() }
        };
        observe(display, view, Box::pin(work)).await?
    };
    for failure in done.failures() {
        console::error(&failure);
    }
    let finished = done.finished();
    let failed = done.rows.len() - finished;
    let result = format!("{finished} of {count} rows finished, {failed} failed");
    if args.output.is_none() {
        let lines: Vec<String> = done.rows.iter().map(ToString::to_string).collect();
        console::json(&format!("{}\n", lines.join("\n")))?;
        display.note(&result);
    } else {
        let counts = json!({"rows": count, "finished": finished, "failed": failed, "runs": done.runs});
        match args.format {
            Format::Text => console::stdout(&format!("{result}, in {} runs\n", done.runs))?,
            Format::Json => console::json(&format!("{counts}\n"))?,
        }
    }
    actions::outputs(&[("answered", finished.to_string()), ("failed", (count - finished).to_string())])?;
    if done.interrupted {
        let left = count - done.rows.len();
        let message = format!("interrupted: {left} rows are left, and their runs continue");
        let hint = match &args.output {
            Some(_) => "the same command resumes",
            None => "with `--output FILE` the next command could resume",
        };
        return Err(Failure::new(Exit::Incomplete, message).hint(hint).into());
    }
    Ok(if finished == count { Exit::Ok } else { Exit::Incomplete })
}

fn completion_params(args: &RolloutDispatchArgs) -> Result<Map<String, Value>, Failure> {
    let mut params = match &args.completion_params {
        None => Map::new(),
        Some(text) => serde_json::from_str::<Map<String, Value>>(text).map_err(|error| {
            Failure::new(Exit::Usage, format!("`--completion-params` is not a JSON object: {error}"))
                .hint("such as `{\"model\": \"gpt-6-luna\", \"temperature\": 0}`")
        })?,
    };
    if let Some(model) = &args.model {
        params.insert("model".to_owned(), model.as_str().into());
    }
    Ok(params)
}
