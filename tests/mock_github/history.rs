//! Commits, comparisons and trees, read from git.

use std::sync::Arc;

use axum::extract::Path;
use axum::response::IntoResponse as _;
use axum::routing::get;
use serde_json::{Value, json};

use crate::api::{Call, InRepo, Named};
use crate::auth::allow;
use crate::reply::{Refused, Reply, ok, page, paged};
use crate::shapes;
use crate::world::{Repo, World};

/// GitHub's limit of files per comparison.
const MOST_FILES: usize = 300;
/// Larger trees are truncated.
const MOST_ENTRIES: usize = 100_000;
/// One field per part: id, parents, tree, author, committer, subject.
const FORMAT: &str = "--format=%H%x00%P%x00%T%x00%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%s";

/// The routes.
pub(crate) fn routes() -> axum::Router<Arc<World>> {
    axum::Router::new()
        .route("/repos/{owner}/{repo}/commits", get(commits))
        .route("/repos/{owner}/{repo}/commits/{reference}", get(commit))
        .route("/repos/{owner}/{repo}/compare/{basehead}", get(compare))
        .route("/repos/{owner}/{repo}/git/trees/{tree}", get(tree))
}

async fn commits(Call { world, asked }: Call, Path((owner, name)): InRepo) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?;
    let from = asked.query.get("sha").unwrap_or(&repo.default_branch);
    let from = repo.bare.resolve_any(from).await.ok_or_else(Refused::not_found)?;
    let mut args = vec!["log".to_owned(), FORMAT.to_owned()];
    args.extend(asked.query.get("since").map(|since| format!("--since={since}")));
    args.extend(asked.query.get("until").map(|until| format!("--until={until}")));
    args.extend([from, "--".to_owned()]);
    args.extend(asked.query.get("path").map(ToOwned::to_owned));
    let log = repo.bare.run(&args.iter().map(String::as_str).collect::<Vec<_>>(), b"").await?;
    let lines: Vec<&str> = log.lines().collect();
    Ok(paged(&lines, &asked, |line| shape(&world, &repo, line)))
}

async fn commit(Call { world, asked }: Call, Path((owner, name, reference)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?;
    let unknown = || Refused::new(422, format!("No commit found for SHA: {reference}"));
    let sha = repo.bare.resolve_any(&reference).await.ok_or_else(unknown)?;
    let mut found = one(&world, &repo, &sha).await?;
    let parent = found["parents"][0]["sha"].as_str().map(ToOwned::to_owned);
    // Git's empty tree.
    let parent = parent.unwrap_or_else(|| "4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned());
    let files = files(&world, &repo, &parent, &sha).await?;
    found["stats"] = json!({ "total": 0, "additions": 0, "deletions": 0 });
    found["files"] = files.into_iter().take(MOST_FILES).collect();
    Ok(ok(&found))
}

async fn compare(Call { world, asked }: Call, Path((owner, name, range)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?;
    let (base, head) = range.split_once("...").ok_or_else(Refused::not_found)?;
    let base = repo.bare.resolve_any(base).await.ok_or_else(Refused::not_found)?;
    let head = repo.bare.resolve_any(head).await.ok_or_else(Refused::not_found)?;
    let no_ancestor = |_| Refused::new(404, format!("No common ancestor between {base} and {head}."));
    let merge_base = repo.bare.run(&["merge-base", &base, &head], b"").await.map_err(no_ancestor)?;
    let merge_base = merge_base.trim();
    let ahead = repo.bare.run(&["log", "--reverse", FORMAT, &format!("{merge_base}..{head}")], b"").await?;
    let behind = repo.bare.run(&["rev-list", &format!("{head}..{base}")], b"").await?.lines().count();
    let ahead: Vec<&str> = ahead.lines().collect();
    let status = match (ahead.len(), behind) {
        (0, 0) => "identical",
        (0, _) => "behind",
        (_, 0) => "ahead",
        _ => "diverged",
    };
    let (shown, headers) = page(&ahead, &asked.query, &asked.url);
    let is_first = asked.query.get("page").is_none_or(|page| page == "1");
    let files = if is_first { files(&world, &repo, merge_base, &head).await? } else { Vec::new() };
    let page = format!("{}/{}/compare/{base}...{head}", world.urls.server_url, repo.full_name());
    let found = json!({
        "url": asked.url,
        "html_url": page,
        "permalink_url": page,
        "diff_url": format!("{page}.diff"),
        "patch_url": format!("{page}.patch"),
        "base_commit": one(&world, &repo, &base).await?,
        "merge_base_commit": one(&world, &repo, merge_base).await?,
        "status": status,
        "ahead_by": ahead.len(),
        "behind_by": behind,
        "total_commits": ahead.len(),
        "commits": shown.iter().map(|line| shape(&world, &repo, line)).collect::<Vec<_>>(),
        "files": files.into_iter().take(MOST_FILES).collect::<Vec<_>>(),
    });
    Ok((headers, ok(&found)).into_response())
}

async fn tree(Call { world, asked }: Call, Path((owner, name, tree)): Named) -> Reply {
    let repo = allow(&world, &asked.caller, &owner, &name, "contents", "read")?;
    let spec = format!("{tree}^{{tree}}");
    let sha = repo.bare.run(&["rev-parse", "--verify", "--quiet", "--end-of-options", &spec], b"").await;
    let sha = sha.map_err(|_| Refused::not_found())?.trim().to_owned();
    let mut args = vec!["ls-tree", "--long"];
    if asked.query.get("recursive").is_some() {
        args.extend(["-r", "-t"]);
    }
    args.push(&sha);
    let listed = repo.bare.run(&args, b"").await?;
    let api = format!("{}/repos/{}/git", world.urls.api_url, repo.full_name());
    let entry = |line: &str| {
        let (head, path) = line.split_once('\t')?;
        let mut words = head.split_whitespace();
        let (mode, kind, sha, size) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let mut entry = json!({
            "path": path, "mode": mode, "type": kind, "sha": sha, "url": format!("{api}/{kind}s/{sha}"),
        });
        if let Ok(size) = size.parse::<u64>() {
            entry["size"] = size.into();
        }
        Some(entry)
    };
    let entries: Vec<Value> = listed.lines().filter_map(entry).collect();
    Ok(ok(&json!({
        "sha": sha,
        "url": format!("{api}/trees/{sha}"),
        "truncated": entries.len() > MOST_ENTRIES,
        "tree": entries.into_iter().take(MOST_ENTRIES).collect::<Vec<_>>(),
    })))
}

/// One commit.
async fn one(world: &World, repo: &Repo, sha: &str) -> Result<Value, Refused> {
    let line = repo.bare.run(&["log", "-1", FORMAT, sha], b"").await?;
    Ok(shape(world, repo, line.trim_end_matches('\n')))
}

/// The differences between two trees.
async fn files(world: &World, repo: &Repo, from: &str, to: &str) -> Result<Vec<Value>, Refused> {
    let raw = repo.bare.run(&["diff", "--raw", "-M", "-z", "--no-abbrev", from, to], b"").await?;
    let api = format!("{}/repos/{}", world.urls.api_url, repo.full_name());
    let server = format!("{}/{}", world.urls.server_url, repo.full_name());
    let mut words = raw.split('\0').filter(|word| !word.is_empty());
    let mut files = Vec::new();
    while let (Some(head), Some(first)) = (words.next(), words.next()) {
        let mut head = head.split(' ').skip(2);
        let (old, new, letter) = (head.next(), head.next(), head.next().unwrap_or_default());
        let status = match letter.chars().next() {
            Some('A') => "added",
            Some('D') => "removed",
            Some('R') => "renamed",
            Some('C') => "copied",
            Some('T') => "changed",
            _ => "modified",
        };
        let moved = matches!(status, "renamed" | "copied").then(|| words.next()).flatten();
        let path = moved.unwrap_or(first);
        let mut file = json!({
            "sha": if status == "removed" { old } else { new },
            "filename": path,
            "status": status,
            "additions": 0,
            "deletions": 0,
            "changes": 0,
            "blob_url": format!("{server}/blob/{to}/{path}"),
            "raw_url": format!("{server}/raw/{to}/{path}"),
            "contents_url": format!("{api}/contents/{path}?ref={to}"),
        });
        if moved.is_some() {
            file["previous_filename"] = first.into();
        }
        files.push(file);
    }
    Ok(files)
}

/// A commit as GitHub shows it.
fn shape(world: &World, repo: &Repo, line: &str) -> Value {
    let mut fields = line.split('\0');
    let mut next = || fields.next().unwrap_or_default();
    let (sha, parents, tree) = (next(), next(), next());
    let author = json!({ "name": next(), "email": next(), "date": utc(next()) });
    let committer = json!({ "name": next(), "email": next(), "date": utc(next()) });
    let message = next();
    let api = format!("{}/repos/{}", world.urls.api_url, repo.full_name());
    let server = format!("{}/{}", world.urls.server_url, repo.full_name());
    let parent = |sha: &str| json!({ "sha": sha, "url": format!("{api}/commits/{sha}"), "html_url": format!("{server}/commit/{sha}") });
    json!({
        "sha": sha,
        "node_id": format!("C_{sha}"),
        "url": format!("{api}/commits/{sha}"),
        "html_url": format!("{server}/commit/{sha}"),
        "comments_url": format!("{api}/commits/{sha}/comments"),
        "commit": {
            "url": format!("{api}/git/commits/{sha}"),
            "author": author,
            "committer": committer,
            "message": message,
            "comment_count": 0,
            "tree": { "sha": tree, "url": format!("{api}/git/trees/{tree}") },
            "verification": {
                "verified": false, "reason": "unsigned", "signature": null, "payload": null, "verified_at": null,
            },
        },
        "author": shapes::user(world, "somebody"),
        "committer": shapes::user(world, "somebody"),
        "parents": parents.split_whitespace().map(parent).collect::<Vec<_>>(),
    })
}

/// A time as GitHub writes it.
fn utc(time: &str) -> String {
    time.parse::<jiff::Timestamp>().map(crate::world::shown).unwrap_or_default()
}
