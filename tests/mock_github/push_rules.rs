//! GitHub's push rules, and concurrent pushes that come first.

use crate::git::Bare;
use crate::pkt_line::Update;
use crate::reply::encoded;
use crate::wire::What;
use crate::world::{Repo, World, random_hex};

const DECLINED: &str = "push declined due to repository rule violations";

/// The message and the reason for git, if a rule rejects a push.
pub(crate) fn refusal(
    world: &World,
    repo: &Repo,
    updates: &[Update],
    has_key: bool,
) -> Option<(String, &'static str)> {
    let update = updates.iter().find(|update| update.branch().is_some())?;
    let reference = &update.reference;
    let full_name = repo.full_name();
    let struck = world.lock().faults.strike(|what| match what {
        What::SecretScanning { branch } => !update.is_deletion() && is_of(update, branch),
        What::PushProtection { branch } => has_key && is_of(update, branch),
        What::Ruleset { branch, .. } => is_of(update, branch),
        _ => false,
    })?;
    let head = format!("error: GH013: Repository rule violations found for {reference}.\n");
    let server = &world.urls.server_url;
    let text = match struck {
        What::Ruleset { rule, .. } => {
            format!(
                "{head}Review all repository rules at {server}/{full_name}/rules?ref={}\n\n- {rule}\n\n",
                encoded(reference)
            )
        }
        _ => format!(
            "{head}\n\
             - GITHUB PUSH PROTECTION\n  {}\n    Resolve the following violations before pushing again\n\n    \
             - Push cannot contain secrets\n\n    \n     (?) Learn how to resolve a blocked push\n     \
             https://docs.github.com/code-security/secret-scanning/working-with-secret-scanning-and-push-protection/working-with-push-protection-from-the-command-line#resolving-a-blocked-push\n    \n    \n      \
             —— OpenAI API Key ————————————————————————————————————\n       locations:\n         - commit: {}\n           \
             path: results/shard-000/0001.jsonl:1\n    \n       \
             (?) To push, remove secret from commit(s) or follow this URL to allow the secret.\n       \
             {server}/{full_name}/security/secret-scanning/unblock-secret/{}\n    \n",
            "—".repeat(41),
            update.new,
            random_hex(27),
        ),
    };
    Some((text, DECLINED))
}

/// Whether push protection is enabled.
pub(crate) fn is_protected(world: &World) -> bool {
    let is_protection = |what: &What| matches!(what, What::PushProtection { .. });
    world.lock().faults.all().iter().any(|state| is_protection(&state.fault.what))
}

/// Whether a file in a push contains an API key of a provider.
pub(crate) async fn has_key(repo: &Repo, push: &[u8]) -> anyhow::Result<bool> {
    let Some(start) = push.windows(8).position(|bytes| bytes == b"0000PACK") else { return Ok(false) };
    let dir = tempfile::tempdir()?;
    let quarantine = Bare::init(dir.path(), "main").await?;
    let alternates = dir.path().join("objects/info/alternates");
    std::fs::write(&alternates, format!("{}\n", repo.bare.dir.join("objects").display()))?;
    quarantine.run(&["index-pack", "--stdin", "--fix-thin"], &push[start + 4..]).await?;
    std::fs::remove_file(alternates)?;
    let objects = quarantine.run(&["cat-file", "--batch-all-objects", "--batch"], b"").await?;
    let is_key = |rest: &str| rest.bytes().take_while(u8::is_ascii_alphanumeric).count() >= 20;
    Ok(objects.split("sk-proj-").skip(1).any(is_key))
}

/// Lets another push win, if this push would be accepted and a fault wants it to lose.
pub(crate) async fn move_first(world: &World, repo: &Repo, updates: &[Update]) -> anyhow::Result<()> {
    for update in updates.iter().filter(|update| !update.is_deletion()) {
        let Some(branch) = update.branch() else { continue };
        // Only an existing branch can be moved.
        let is_current = repo.bare.resolve(&update.reference).await.is_some_and(|now| now == update.old);
        let strikes = |what: &What| matches!(what, What::RefMoved { branch } if is_of(update, branch));
        if is_current && world.lock().faults.strike(strikes).is_some() {
            let path = format!("foreign/{}", random_hex(8));
            repo.bare.commit(branch, &path, b"somebody was faster\n", "Add a file of somebody else").await?;
        }
    }
    Ok(())
}

fn is_of(update: &Update, prefix: &str) -> bool {
    update.branch().is_some_and(|branch| branch.starts_with(prefix))
}
