//! Who may connect: the networks in a file, one per line, and those that GitHub publishes.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ipnet::IpNet;

use super::GithubNetworks;
use crate::model::{Failure, printable};

/// The networks that may connect; without a file and GitHub's list, every address may.
#[derive(Debug, Default)]
pub struct AllowList {
    path: Option<PathBuf>,
    networks: RwLock<Vec<IpNet>>,
    github: Option<Arc<GithubNetworks>>,
}

impl AllowList {
    /// Reads the file.
    pub fn load(path: Option<PathBuf>, github: Option<Arc<GithubNetworks>>) -> Result<Self, Failure> {
        let networks = RwLock::new(path.as_deref().map(read).transpose()?.unwrap_or_default());
        Ok(Self { path, networks, github })
    }

    /// Reads it again, and refreshes GitHub's list; on failure the old list stays valid.
    pub fn reload(&self) -> Result<(), Failure> {
        if let Some(github) = &self.github {
            github.refresh_soon();
        }
        if let Some(path) = &self.path {
            *self.networks.write().unwrap_or_else(PoisonError::into_inner) = read(path)?;
        }
        Ok(())
    }

    /// Whether this address may connect.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let networks = self.networks.read().unwrap_or_else(PoisonError::into_inner);
        self.is_open()
            || networks.iter().any(|network| network.contains(&address))
            || self.github.as_ref().is_some_and(|github| github.contains(address))
    }

    /// The number of networks, if connections are limited.
    pub fn count(&self) -> Option<usize> {
        let networks = self.networks.read().unwrap_or_else(PoisonError::into_inner);
        let of_github = self.github.as_ref().map_or(0, |github| github.count());
        (!self.is_open()).then(|| networks.len() + of_github)
    }

    /// Whether connections are unlimited. An empty list admits no address.
    fn is_open(&self) -> bool {
        self.path.is_none() && self.github.is_none()
    }
}

/// A network in CIDR notation; a single address is a network of one.
pub(super) fn network(text: &str) -> Result<IpNet, String> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let single = IpNet::from(address.parse::<IpAddr>().map_err(|_| "no address".to_owned())?);
    let most = single.max_prefix_len();
    let Some(bits) = bits else { return Ok(single) };
    let bits = bits.parse().map_err(|_| format!("0 to {most} bits"))?;
    let network = IpNet::new(single.addr(), bits).map_err(|_| format!("0 to {most} bits"))?;
    // `10.1.2.3/8` is more likely a mistake.
    if network == network.trunc() {
        Ok(network)
    } else {
        Err(format!("the address has more than {bits} bits"))
    }
}

fn read(path: &Path) -> Result<Vec<IpNet>, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::config(format!("cannot read the list of networks `{shown}`: {error}")))?;
    let mut networks = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let found = network(line).map_err(|reason| {
            let text = format!("{shown}:{}: not a network: `{}` ({reason})", index + 1, printable(line));
            Failure::config(text).hint("one network per line, for example `10.20.0.0/16` or `2001:db8::/32`")
        })?;
        networks.push(found);
    }
    if networks.is_empty() {
        return Err(Failure::config(format!("no network in `{shown}`: no client could connect"))
            .hint("one network per line, for example `10.20.0.0/16`"));
    }
    Ok(networks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(network: &str, address: &str) -> bool {
        super::network(network).unwrap().contains(&address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn networks_contain_what_their_bits_say() {
        assert!(allows("10.20.0.0/16", "10.20.255.1"));
        assert!(!allows("10.20.0.0/16", "10.21.0.0"));
        assert!(allows("0.0.0.0/0", "203.0.113.9"));
        assert!(!allows("0.0.0.0/0", "2001:db8::1"));
        assert!(allows("192.0.2.7", "192.0.2.7"));
        assert!(!allows("192.0.2.7", "192.0.2.6"));
        assert!(allows("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!allows("2001:db8::/32", "2001:db9::1"));
    }

    #[test]
    fn typos_are_rejected() {
        for (text, reason) in [
            ("10.1.2.3/8", "the address has more than 8 bits"),
            ("10.0.0.0/33", "0 to 32 bits"),
            ("10.0.0/8", "no address"),
            ("::/129", "0 to 128 bits"),
            ("10.0.0.0/", "0 to 32 bits"),
        ] {
            assert_eq!(network(text).unwrap_err(), reason, "{text}");
        }
    }
}
