//! `adapter` and `dispatch --agentv-batch`: AgentV calls them, for one test case or a whole suite.

use super::args::{AdapterArgs, DispatchArgs};
use super::display::Display;
use crate::adapter::{CallOptions, SuiteCall, answer_call, answer_suite};
use crate::engine::Input;
use crate::model::{Exit, Failure};

pub(super) async fn adapter(args: AdapterArgs, display: &Display) -> anyhow::Result<Exit> {
    let options = CallOptions {
        prompt_file: args.prompt_file,
        output_file: args.output_file,
        id: args.id,
        attempt: args.attempt,
        files: args.files,
        files_root: args.files_root,
        together: args.together,
        workers: args.workers,
        window: args.window,
        exchange: args.exchange,
        targets: args.targets,
        target: args.target,
        github: args.github.access(),
        remote: args.remote.options(),
    };
    answer_call(options, display.observer()).await
}

pub(super) async fn agentv_batch(args: DispatchArgs, display: &Display) -> anyhow::Result<Exit> {
    let (Some(suite), Some(output_file)) = (args.suite, args.output_file) else {
        return Err(Failure::new(Exit::Usage, "`--agentv-batch` needs a suite and `--output-file`").into());
    };
    let call = SuiteCall {
        execution: args.work.options(Input::Suite(suite.clone(), None)),
        suite,
        output_file,
        id: args.id,
        exchange: args.work.batch.exchange,
    };
    answer_suite(call, display.observer()).await
}
