//! Steps other than our action: a checkout, and `run:`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::environment::StepEnvironment;
use super::matrix_job::MatrixJob;
use crate::git;
use crate::world::World;

/// Writes the files of the run's commit to the workspace.
pub(super) async fn checkout(world: &World, matrix_job: &MatrixJob, workspace: &Path) -> Result<(), String> {
    let (dir, sha) = {
        let state = world.lock();
        let run = state.runs.get(&matrix_job.run).ok_or("the run is gone")?;
        let repo = state.repos.get(&run.repo.to_lowercase()).ok_or("the repository does not exist")?;
        (repo.bare.dir.clone(), run.sha.clone())
    };
    let archive = workspace.with_extension("tar");
    let mut pack = git::command();
    pack.arg("--git-dir").arg(dir).args(["archive", "--output"]).arg(&archive).arg(sha);
    let mut unpack = tokio::process::Command::new("tar");
    unpack.arg("-xf").arg(&archive).arg("-C").arg(workspace);
    for mut command in [pack, unpack] {
        let status = command.status().await.map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the checkout failed: {status}"));
        }
    }
    Ok(())
}

/// The script of a step as a program, with `run-evals` on its path.
pub(super) fn written(
    script: &str,
    environment: &mut StepEnvironment,
    runner: &Path,
    number: usize,
) -> Result<PathBuf, String> {
    let path = environment.workspace.with_file_name(format!("step-{number}.sh"));
    fs::write(&path, format!("#!/bin/bash -e\n{script}\n")).map_err(|error| error.to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    let before = environment.variables.remove("PATH").unwrap_or_default();
    let own = runner.parent().unwrap_or(runner).display();
    environment.variables.insert("PATH".to_owned(), format!("{own}:{before}"));
    Ok(path)
}
