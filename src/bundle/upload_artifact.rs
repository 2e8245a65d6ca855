//! Uploads an archive as an artifact of the workflow run.

use std::path::Path;

use anyhow::Context as _;

use crate::console::actions;
use crate::engine::Observer;
use crate::github::ResultsService;
use crate::util::WorkDir;
use crate::util::process_env::ProcessEnv;
use crate::util::zip::zip_file;

/// Uploads a file, if this is a step of a workflow whose server supports artifacts.
pub async fn upload_artifact(file: &Path, name: &str, observer: &dyn Observer) -> anyhow::Result<()> {
    if !actions::is_step() {
        return Ok(());
    }
    let env = ProcessEnv::read();
    let service = match ResultsService::from_env(|name| env.get(name).map(ToOwned::to_owned)) {
        Some(Ok(service)) => service,
        Some(Err(error)) => {
            observer.warning(&format!("the archive was not uploaded as an artifact: {error}"));
            return Ok(());
        }
        None => return Ok(()),
    };
    let dir = WorkDir::new()?;
    let zip = dir.path().join("bundle.zip");
    let inner = file.file_name().and_then(|name| name.to_str()).context("an archive has a name")?;
    zip_file(file, inner, &zip)?;
    let name = format!("bundle-{name}");
    service.upload(&name, &zip, None).await?;
    observer.note(&format!("artifact {name}"));
    Ok(())
}
