//! Users and repositories as GitHub shows them: many URLs, of which few matter.

use serde_json::{Map, Value, json};

use crate::world::{Repo, Token, World, shown};

const REPOSITORY_ADDRESSES: [(&str, &str); 37] = [
    ("archive_url", "/{archive_format}{/ref}"),
    ("assignees_url", "/assignees{/user}"),
    ("blobs_url", "/git/blobs{/sha}"),
    ("branches_url", "/branches{/branch}"),
    ("collaborators_url", "/collaborators{/collaborator}"),
    ("comments_url", "/comments{/number}"),
    ("commits_url", "/commits{/sha}"),
    ("compare_url", "/compare/{base}...{head}"),
    ("contents_url", "/contents/{+path}"),
    ("contributors_url", "/contributors"),
    ("deployments_url", "/deployments"),
    ("downloads_url", "/downloads"),
    ("events_url", "/events"),
    ("forks_url", "/forks"),
    ("git_commits_url", "/git/commits{/sha}"),
    ("git_refs_url", "/git/refs{/sha}"),
    ("git_tags_url", "/git/tags{/sha}"),
    ("hooks_url", "/hooks"),
    ("issue_comment_url", "/issues/comments{/number}"),
    ("issue_events_url", "/issues/events{/number}"),
    ("issues_url", "/issues{/number}"),
    ("keys_url", "/keys{/key_id}"),
    ("labels_url", "/labels{/name}"),
    ("languages_url", "/languages"),
    ("merges_url", "/merges"),
    ("milestones_url", "/milestones{/number}"),
    ("notifications_url", "/notifications{?since,all,participating}"),
    ("pulls_url", "/pulls{/number}"),
    ("releases_url", "/releases{/id}"),
    ("stargazers_url", "/stargazers"),
    ("statuses_url", "/statuses/{sha}"),
    ("subscribers_url", "/subscribers"),
    ("subscription_url", "/subscription"),
    ("tags_url", "/tags"),
    ("teams_url", "/teams"),
    ("trees_url", "/git/trees{/sha}"),
    ("url", ""),
];

const USER_ADDRESSES: [(&str, &str); 10] = [
    ("events_url", "/events{/privacy}"),
    ("followers_url", "/followers"),
    ("following_url", "/following{/other_user}"),
    ("gists_url", "/gists{/gist_id}"),
    ("organizations_url", "/orgs"),
    ("received_events_url", "/received_events"),
    ("repos_url", "/repos"),
    ("starred_url", "/starred{/owner}{/repo}"),
    ("subscriptions_url", "/subscriptions"),
    ("url", ""),
];

/// A `simple-user`.
pub(crate) fn user(world: &World, login: &str) -> Value {
    // A bot's name has brackets.
    let in_url = login.replace('[', "%5B").replace(']', "%5D");
    let base = format!("{}/users/{in_url}", world.urls.api_url);
    let mut user = addresses(&base, &USER_ADDRESSES);
    let more = json!({
        "login": login,
        "id": login.bytes().fold(1_u64, |id, byte| (id * 31 + u64::from(byte)) % 100_000_000),
        "node_id": format!("U_{login}"),
        "avatar_url": format!("{}/{in_url}.png", world.urls.server_url),
        "gravatar_id": "",
        "html_url": format!("{}/{in_url}", world.urls.server_url),
        "type": if login.ends_with("[bot]") { "Bot" } else { "User" },
        "site_admin": false,
    });
    extend(&mut user, more);
    Value::Object(user)
}

/// A `minimal-repository`, as part of runs.
pub(crate) fn minimal_repository(world: &World, repo: &Repo) -> Value {
    let full_name = repo.full_name();
    let mut result = addresses(&format!("{}/repos/{full_name}", world.urls.api_url), &REPOSITORY_ADDRESSES);
    let more = json!({
        "id": repo.id,
        "node_id": format!("R_{}", repo.id),
        "name": repo.name,
        "full_name": full_name,
        "owner": user(world, &repo.owner),
        "private": repo.private,
        "html_url": format!("{}/{full_name}", world.urls.server_url),
        "description": null,
        "fork": false,
    });
    extend(&mut result, more);
    Value::Object(result)
}

/// A `full-repository`, as in the response of `GET` and in the event file.
pub(crate) fn full_repository(world: &World, repo: &Repo) -> Value {
    let full_name = repo.full_name();
    let host = world.urls.server_url.split("://").nth(1).unwrap_or_default();
    let mut result = match minimal_repository(world, repo) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let more = json!({
        "clone_url": format!("{}/{full_name}.git", world.urls.server_url),
        "git_url": format!("git://{host}/{full_name}.git"),
        "ssh_url": format!("git@{host}:{full_name}.git"),
        "svn_url": format!("{}/{full_name}", world.urls.server_url),
        "default_branch": repo.default_branch,
        "archived": repo.archived,
        "disabled": false,
        "visibility": if repo.private { "private" } else { "public" },
        "created_at": shown(repo.created_at),
        "updated_at": shown(repo.created_at),
        "pushed_at": shown(repo.created_at),
        "homepage": null,
        "language": null,
        "license": null,
        "mirror_url": null,
        "size": 1,
        "forks": 0,
        "forks_count": 0,
        "network_count": 0,
        "open_issues": 0,
        "open_issues_count": 0,
        "stargazers_count": 0,
        "subscribers_count": 0,
        "watchers": 0,
        "watchers_count": 0,
        "has_downloads": true,
        "has_issues": true,
        "has_projects": false,
        "has_wiki": false,
        "has_pages": false,
        "has_discussions": false,
        "has_downloads": true,
        "topics": [],
    });
    extend(&mut result, more);
    Value::Object(result)
}

/// A `full-repository` with the permissions of a caller.
pub(crate) fn repository_for(world: &World, repo: &Repo, token: Option<&Token>) -> Value {
    let mut result = full_repository(world, repo);
    if let Some(token) = token {
        let role = if token.grants_in(&repo.full_name()).is_some() { token.role.as_str() } else { "read" };
        let (admin, push) = (role == "admin", role != "read");
        result["permissions"] =
            json!({ "admin": admin, "maintain": admin, "push": push, "triage": push, "pull": true });
    }
    result
}

fn addresses(base: &str, suffixes: &[(&str, &str)]) -> Map<String, Value> {
    suffixes
        .iter()
        .map(|(name, suffix)| ((*name).to_owned(), Value::from(format!("{base}{suffix}"))))
        .collect()
}

fn extend(map: &mut Map<String, Value>, more: Value) {
    if let Value::Object(more) = more {
        map.extend(more);
    }
}
