//! Who may connect at all: networks in a file, one a line.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use crate::model::{Failure, printable};

/// The networks that may connect; without a file, everybody may.
#[derive(Debug, Default)]
pub struct AllowList {
    path: Option<PathBuf>,
    networks: RwLock<Vec<Network>>,
}

/// An address and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

impl AllowList {
    /// Reads the file.
    pub fn load(path: Option<PathBuf>) -> Result<Self, Failure> {
        let networks = RwLock::new(path.as_deref().map(read).transpose()?.unwrap_or_default());
        Ok(Self { path, networks })
    }

    /// Reads it again; if that fails, what it said stays.
    pub fn reload(&self) -> Result<(), Failure> {
        if let Some(path) = &self.path {
            *self.networks.write().unwrap_or_else(PoisonError::into_inner) = read(path)?;
        }
        Ok(())
    }

    /// Whether this address may connect.
    pub fn contains(&self, address: IpAddr) -> bool {
        let networks = self.networks.read().unwrap_or_else(PoisonError::into_inner);
        self.path.is_none() || networks.iter().any(|network| network.contains(address.to_canonical()))
    }

    /// How many networks there are, if there is a file.
    pub fn count(&self) -> Option<usize> {
        let networks = self.networks.read().unwrap_or_else(PoisonError::into_inner);
        self.path.is_some().then(|| networks.len())
    }
}

impl Network {
    fn parse(text: &str) -> Result<Self, String> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| "no address".to_owned())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => {
                bits.parse().ok().filter(|bits| *bits <= most).ok_or(format!("0 to {most} bits"))?
            }
        };
        let network = Self { address, bits };
        // `10.1.2.3/8` is more likely a slip than a wish.
        if network.masked(address) == number(address) {
            Ok(network)
        } else {
            Err(format!("the address has more than {bits} bits"))
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4() && self.masked(address) == number(self.address)
    }

    fn masked(&self, address: IpAddr) -> u128 {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
        number(address) & mask
    }
}

/// The address as the highest bits of a number.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn read(path: &Path) -> Result<Vec<Network>, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::config(format!("cannot read the list of networks `{shown}`: {error}")))?;
    let mut networks = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let network = Network::parse(line).map_err(|reason| {
            let text = format!("{shown}:{}: no network: `{}` ({reason})", index + 1, printable(line));
            Failure::config(text).hint("one network a line, for example `10.20.0.0/16` or `2001:db8::/32`")
        })?;
        networks.push(network);
    }
    if networks.is_empty() {
        return Err(Failure::config(format!("no network in `{shown}`: nobody could connect"))
            .hint("one network a line, for example `10.20.0.0/16`"));
    }
    Ok(networks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(network: &str, address: &str) -> bool {
        Network::parse(network).unwrap().contains(address.parse().unwrap())
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
    fn slips_are_refused() {
        for (text, reason) in [
            ("10.1.2.3/8", "the address has more than 8 bits"),
            ("10.0.0.0/33", "0 to 32 bits"),
            ("10.0.0/8", "no address"),
            ("::/129", "0 to 128 bits"),
            ("10.0.0.0/", "0 to 32 bits"),
        ] {
            assert_eq!(Network::parse(text).unwrap_err(), reason, "{text}");
        }
    }
}
