//! Comments on issues and pull requests, identified by a marker and updated in place.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::call::{Call, Repeat};
use super::client::Client;
use super::error::{About, ApiError, TokenKind};
use super::runs::or_default;

/// 100 comments each.
const MOST_PAGES: usize = 30;

/// Result of writing a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentPut {
    Created(String),
    Updated(String),
    Unchanged(String),
}

#[derive(Debug, Clone, Deserialize)]
struct Comment {
    id: u64,
    #[serde(default, deserialize_with = "or_default")]
    body: String,
    #[serde(default)]
    html_url: String,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct User {
    login: String,
    #[serde(rename = "type", default)]
    kind: String,
}

/// The author of our comments.
pub(super) enum Author {
    Login(String),
    /// A job's token or an App cannot know its own login, but it is always a bot.
    Bot,
}

impl Client {
    /// Creates or updates the comment whose body begins with `mark`.
    pub async fn put_comment(
        &self,
        repo: &str,
        issue: u64,
        mark: &str,
        body: &str,
    ) -> Result<CommentPut, ApiError> {
        // Anyone can write the marker into a comment: only our own counts.
        let author = self.author(repo).await?;
        if let Some(found) = self.find_comment(repo, issue, mark, &author).await? {
            if found.body.trim_end() == body.trim_end() {
                return Ok(CommentPut::Unchanged(found.html_url));
            }
            let url = self.repo_url(repo, &["issues", "comments", &found.id.to_string()])?;
            let call = Call {
                method: Method::PATCH,
                // Idempotent.
                repeat: Repeat::Freely,
                ..Call::post(About::Comment, repo, &issue, url, Some(json!({"body": body})))
            };
            let answer = self.call(call.clone()).await?;
            match answer.status {
                // It was deleted concurrently.
                StatusCode::NOT_FOUND => {}
                status if status.is_success() => {
                    return Ok(CommentPut::Updated(self.parse::<Comment>(&answer)?.html_url));
                }
                _ => return Err(self.refused(&call, &answer)),
            }
        }
        let url = self.repo_url(repo, &["issues", &issue.to_string(), "comments"])?;
        let call = Call::post(About::Comment, repo, &issue, url, Some(json!({"body": body})));
        match self.fetch::<Comment>(call.clone()).await {
            // It may have been created: look again instead of creating a second one.
            Err(error) if may_be_done(&error) => match self.find_comment(repo, issue, mark, &author).await? {
                Some(found) => Ok(CommentPut::Created(found.html_url)),
                None => self.fetch::<Comment>(call).await.map(|made| CommentPut::Created(made.html_url)),
            },
            made => made.map(|made| CommentPut::Created(made.html_url)),
        }
    }

    async fn find_comment(
        &self,
        repo: &str,
        issue: u64,
        mark: &str,
        author: &Author,
    ) -> Result<Option<Comment>, ApiError> {
        let url = self.repo_url(repo, &["issues", &issue.to_string(), "comments"])?;
        let call = Call::get(About::Comment, repo, &issue, url);
        let all = self.all_pages(call, MOST_PAGES, |page: Vec<Comment>| page).await?;
        Ok(all.into_iter().find(|comment| comment.body.starts_with(mark) && author.is(comment.user.as_ref())))
    }

    /// The identity of this client, as far as it is known.
    pub(super) async fn author(&self, repo: &str) -> Result<Author, ApiError> {
        if matches!(self.token_kind(), TokenKind::Job | TokenKind::App) {
            return Ok(Author::Bot);
        }
        let call = Call::get(About::Comment, repo, &"", self.url(&["user"]));
        let answer = self.call(call.clone()).await?;
        match answer.status {
            status if status.is_success() => Ok(Author::Login(self.parse::<User>(&answer)?.login)),
            StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Ok(Author::Bot),
            _ => Err(self.refused(&call, &answer)),
        }
    }
}

impl Author {
    pub(super) fn is(&self, user: Option<&User>) -> bool {
        user.is_some_and(|user| match self {
            Self::Login(login) => user.login == *login,
            Self::Bot => user.kind == "Bot",
        })
    }
}

/// Whether GitHub may have processed a request without reporting it.
pub(super) fn may_be_done(error: &ApiError) -> bool {
    match error {
        ApiError::Unreachable { sent, .. } => *sent,
        ApiError::BadAnswer { .. } => true,
        error => error.status().is_some_and(|status| status >= 500),
    }
}
