//! The networks that GitHub publishes for Actions runners: fetched from the meta API, kept on disk, refreshed.
//!
//! The list is external input, so it is bounded and checked as a whole. An unusable list changes nothing: the last good one stays
//! valid, also across restarts. Without any list, it admits no address.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ipnet::IpNet;
use reqwest::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;

use super::allow::network;
use crate::github::check_api_url;
use crate::model::{Exit, Failure, printable};
use crate::util::error::innermost;
use crate::util::regular_file;
use crate::util::truncate::truncate;
use crate::util::{clock, durable, sealed_json};

const USER_AGENT: &str = concat!("run-evals/", env!("CARGO_PKG_VERSION"));
/// The timeout of a request; the port opens after the first one.
const TIMEOUT: Duration = Duration::from_secs(15);
const LARGEST_ANSWER: usize = 4 << 20;
const MOST_NETWORKS: usize = 50_000;
/// The most IPv4 addresses in the whole list: a quarter of all.
const MOST_ADDRESSES: u64 = 1 << 30;
/// Wider networks belong to no single owner.
const WIDEST_V4: u8 = 8;
const WIDEST_V6: u8 = 16;
const REFRESH_EVERY: Duration = Duration::from_hours(1);
const RETRY_AFTER: Duration = Duration::from_mins(5);
/// The file in the state directory with the last good list.
const FILE: &str = "github-networks.json";

/// The list.
#[derive(Debug)]
pub struct GithubNetworks {
    url: Url,
    file: PathBuf,
    client: reqwest::Client,
    current: RwLock<Arc<CachedNetworkList>>,
    again: Notify,
}

#[derive(Debug, Default)]
struct CachedNetworkList {
    networks: Vec<IpNet>,
    etag: Option<String>,
}

/// The list as stored, with the URL it came from.
#[derive(Serialize, Deserialize)]
struct CachedNetworks {
    url: String,
    etag: Option<String>,
    networks: Vec<String>,
}

impl GithubNetworks {
    /// The stored list of this GitHub.
    pub fn open(api_url: &str, state: &Path) -> Result<Arc<Self>, Failure> {
        check_api_url(api_url)?;
        let url = Url::parse(&format!("{}/meta", api_url.trim().trim_end_matches('/')))
            .map_err(|error| Failure::config(format!("the address of GitHub's API is not a URL: {error}")))?;
        let client = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| {
                Failure::new(Exit::Failure, format!("cannot set up the HTTP client: {}", innermost(&error)))
            })?;
        let file = state.join(FILE);
        let current = RwLock::new(Arc::new(read_kept(&file, &url).unwrap_or_default()));
        Ok(Arc::new(Self { url, file, client, current, again: Notify::new() }))
    }

    /// Whether an address is in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.current().networks.iter().any(|network| network.contains(&address))
    }

    /// How many networks there are.
    pub fn count(&self) -> usize {
        self.current().networks.len()
    }

    /// Makes [`Self::follow`] refresh the list now.
    pub fn refresh_soon(&self) {
        self.again.notify_one();
    }

    /// Refreshes the list forever, after `wait`.
    pub async fn follow(self: Arc<Self>, mut wait: Duration) {
        loop {
            tokio::select! {
                () = clock::sleep(wait) => {}
                () = self.again.notified() => {}
            }
            wait = self.refresh().await;
        }
    }

    /// Fetches the list once, and returns the time until the next attempt.
    pub async fn refresh(&self) -> Duration {
        match self.fetch().await {
            Ok(None) => REFRESH_EVERY,
            Ok(Some(fresh)) => {
                let networks = fresh.networks.len();
                if let Err(error) = self.keep(&fresh) {
                    tracing::warn!("cannot store the networks of GitHub Actions: {error}");
                }
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
                tracing::info!(networks, "loaded the networks of GitHub Actions");
                REFRESH_EVERY
            }
            Err(problem) => {
                let (networks, url) = (self.count(), self.url.as_str());
                let what = match networks {
                    0 => "the networks of GitHub Actions are unknown; none is allowed",
                    _ => "keeping the last good networks of GitHub Actions",
                };
                tracing::error!(networks, url, "{what}: {problem}");
                RETRY_AFTER
            }
        }
    }

    fn current(&self) -> Arc<CachedNetworkList> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The list, or `None` if it has not changed.
    async fn fetch(&self) -> Result<Option<CachedNetworkList>, String> {
        let gone = |error: reqwest::Error| innermost(&error.without_url());
        let mut request = self.client.get(self.url.clone()).header(ACCEPT, "application/vnd.github+json");
        let known = self.current().etag.clone();
        if let Some(etag) = &known {
            request = request.header(IF_NONE_MATCH, etag);
        }
        let mut response = request.send().await.map_err(gone)?;
        match response.status() {
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(None),
            StatusCode::OK => {}
            status => return Err(format!("GitHub returned {}", status.as_u16())),
        }
        let etag = response.headers().get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(gone)? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                return Err(format!("the response is larger than {} MiB", LARGEST_ANSWER >> 20));
            }
            body.extend_from_slice(&chunk);
        }
        let body: Value = serde_json::from_slice(&body).map_err(|_| "the response is not JSON".to_owned())?;
        let listed = body["actions"].as_array().ok_or("the response has no list `actions`")?;
        let texts = listed.iter().map(|text| text.as_str().unwrap_or_default());
        Ok(Some(CachedNetworkList { networks: parse(texts)?, etag }))
    }

    fn keep(&self, fresh: &CachedNetworkList) -> std::io::Result<()> {
        let networks = fresh.networks.iter().map(ToString::to_string).collect();
        let kept = CachedNetworks { url: self.url.to_string(), etag: fresh.etag.clone(), networks };
        durable::write(&self.file, &sealed_json::to_vec(&kept)?)
    }
}

/// The list that an earlier process stored; `None` if it is damaged or another server's.
fn read_kept(file: &Path, url: &Url) -> Option<CachedNetworkList> {
    let bytes =
        regular_file::read(file, regular_file::SETTINGS).ok().filter(|bytes| sealed_json::is_whole(bytes))?;
    let kept: CachedNetworks = serde_json::from_slice(&bytes).ok()?;
    let networks = parse(kept.networks.iter().map(String::as_str)).ok()?;
    (kept.url == url.as_str()).then_some(CachedNetworkList { networks, etag: kept.etag })
}

/// All networks, or why the list cannot be GitHub's.
fn parse<'a>(texts: impl ExactSizeIterator<Item = &'a str>) -> Result<Vec<IpNet>, String> {
    match texts.len() {
        0 => return Err("the list `actions` is empty".to_owned()),
        1..=MOST_NETWORKS => {}
        many => return Err(format!("the list `actions` has {many} entries, more than {MOST_NETWORKS}")),
    }
    let one = |text: &str| {
        let shown = || printable(&truncate(text, 60));
        let network = network(text).map_err(|reason| format!("`{}` is not a network: {reason}", shown()))?;
        let widest = if network.addr().is_ipv4() { WIDEST_V4 } else { WIDEST_V6 };
        if network.prefix_len() < widest {
            return Err(format!("`{}` is too wide to be a GitHub network", shown()));
        }
        Ok(network)
    };
    let networks = texts.map(one).collect::<Result<Vec<_>, String>>()?;
    let addresses: u64 = networks
        .iter()
        .filter(|network| network.addr().is_ipv4())
        .map(|network| 1_u64 << (32 - network.prefix_len()))
        .sum();
    if addresses > MOST_ADDRESSES {
        return Err("the list `actions` covers too much of the internet".to_owned());
    }
    Ok(networks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_counts_as_a_whole_or_not_at_all() {
        let read = |texts: &[&str]| parse(texts.iter().copied());
        assert_eq!(read(&["4.148.0.0/16", "2603:1030::/32", "192.0.2.7"]).unwrap().len(), 3);
        insta::assert_snapshot!(read(&[]).unwrap_err(), @"the list `actions` is empty");
        insta::assert_snapshot!(read(&["4.148.0.0/16", "0.0.0.0/0"]).unwrap_err(), @"`0.0.0.0/0` is too wide to be a GitHub network");
        insta::assert_snapshot!(read(&["::/8"]).unwrap_err(), @"`::/8` is too wide to be a GitHub network");
        insta::assert_snapshot!(read(&["4.148.0.0/16", "x\n"]).unwrap_err(), @r"`x\n` is not a network: no address");
        let eighths: Vec<String> = (0..256).map(|n| format!("{n}.0.0.0/8")).collect();
        let eighths: Vec<&str> = eighths.iter().map(String::as_str).collect();
        insta::assert_snapshot!(read(&eighths).unwrap_err(), @"the list `actions` covers too much of the internet");
        let many = vec!["192.0.2.7"; MOST_NETWORKS + 1];
        insta::assert_snapshot!(read(&many).unwrap_err(), @"the list `actions` has 50001 entries, more than 50000");
    }
}
