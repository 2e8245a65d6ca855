//! Comments on issues and pull requests: one that is known by its mark is written again, not once more.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::call::{Call, Repeat};
use super::client::Client;
use super::error::{About, ApiError, TokenKind};
use super::runs::or_default;

/// 3,000 comments.
const MOST_PAGES: usize = 30;

/// What became of a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommentPut {
    /// There was none with the mark.
    Created(String),
    /// It was there, and says something else now.
    Updated(String),
    /// It was there, and says the same.
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

/// Whose comments are ours.
pub(super) enum Author {
    Login(String),
    /// A job or an App is not told its own name; no person is one.
    Bot,
}

impl Client {
    /// Writes the comment of an issue or pull request whose body begins with `mark`, or makes it.
    pub async fn put_comment(
        &self,
        repo: &str,
        issue: u64,
        mark: &str,
        body: &str,
    ) -> Result<CommentPut, ApiError> {
        // Anybody can write the mark into a comment: only our own is taken for it.
        let author = self.author(repo).await?;
        if let Some(found) = self.find_comment(repo, issue, mark, &author).await? {
            if found.body.trim_end() == body.trim_end() {
                return Ok(CommentPut::Unchanged(found.html_url));
            }
            let url = self.repo_url(repo, &["issues", "comments", &found.id.to_string()])?;
            let call = Call {
                method: Method::PATCH,
                // To write it twice is to write it.
                repeat: Repeat::Freely,
                ..Call::post(About::Comment, repo, &issue, url, Some(json!({"body": body})))
            };
            let answer = self.call(call.clone()).await?;
            match answer.status {
                // Somebody has deleted it since.
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
            // It may have been written: a second one would be worse than a second look.
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

    /// Who this client is, as far as it can know.
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
    /// Whether this is who it is.
    pub(super) fn is(&self, user: Option<&User>) -> bool {
        user.is_some_and(|user| match self {
            Self::Login(login) => user.login == *login,
            Self::Bot => user.kind == "Bot",
        })
    }
}

/// Whether GitHub may have done what it was asked, although it did not say so.
pub(super) fn may_be_done(error: &ApiError) -> bool {
    match error {
        ApiError::Unreachable { sent, .. } => *sent,
        ApiError::BadAnswer { .. } => true,
        error => error.status().is_some_and(|status| status >= 500),
    }
}
