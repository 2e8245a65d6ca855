//! `report`: what the results in a directory come to.

use super::args::ReportCommandArgs;
use super::display::Display;
use super::publish::{self, Publication};
use super::{actions, inputs};
use crate::model::Exit;

pub(super) async fn report(args: ReportCommandArgs, display: &Display) -> anyhow::Result<Exit> {
    let cwd = std::env::current_dir()?;
    let env = inputs::environment(&cwd, &cwd)?;
    let publication = Publication {
        dir: &args.results,
        args: &args.report,
        github: &args.github,
        format: Some(args.format),
        env: &env,
        display,
    };
    let published = publish::publish(&publication).await?;
    actions::outputs(&published.outputs)?;
    Ok(published.exit)
}
