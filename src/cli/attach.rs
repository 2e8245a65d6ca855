//! An archive as an artifact of the workflow run that made it.

use std::path::Path;

use anyhow::Context as _;

use super::display::Display;
use super::{actions, inputs};
use crate::archive::zip_one;
use crate::github::ResultsService;

/// Uploads a file, where this is a step of a workflow whose server takes artifacts.
pub(super) async fn attach(file: &Path, name: &str, display: &Display) -> anyhow::Result<()> {
    if !actions::is_step() {
        return Ok(());
    }
    let env = inputs::process_environment();
    let service = match ResultsService::from_env(|name| env.get(name).map(ToOwned::to_owned)) {
        Some(Ok(service)) => service,
        Some(Err(error)) => {
            display.warning(&format!("the archive is no artifact: {error}"));
            return Ok(());
        }
        None => return Ok(()),
    };
    let dir = tempfile::tempdir()?;
    let zip = dir.path().join("bundle.zip");
    let inner = file.file_name().and_then(|name| name.to_str()).context("an archive has a name")?;
    zip_one(file, inner, &zip)?;
    let name = format!("bundle-{name}");
    service.upload(&name, &zip, None).await?;
    display.note(&format!("artifact {name}"));
    Ok(())
}
