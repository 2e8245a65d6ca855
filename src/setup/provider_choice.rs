//! Chooses the provider of a new runner repository, and whether a key is stored for it.

use super::models::is_supported;
use super::preflight::Keyless;
use crate::config::keyless::Vendor;
use crate::model::{Exit, Failure, PROVIDERS, ProviderKind, printable};

/// The provider, and the vendor that trusts the jobs instead of a stored key.
pub fn choose_provider(
    provider: Option<&str>,
    keyless: Option<&str>,
    ids: Vec<(String, String)>,
) -> Result<(&'static ProviderKind, Option<Keyless>), Failure> {
    let Some(name) = keyless else {
        let name = provider.unwrap_or_default();
        let provider = ProviderKind::find(name).filter(|kind| is_supported(kind));
        return Ok((provider.ok_or_else(|| unknown_provider(name))?, None));
    };
    let found = Vendor::find(name).and_then(|vendor| Some((ProviderKind::find(vendor.provider())?, vendor)));
    let Some((provider, vendor)) = found else {
        let known: Vec<&str> = Vendor::ALL.iter().map(|(name, _)| *name).collect();
        let failure =
            Failure::new(Exit::Usage, format!("`{}` does not support identity tokens", printable(name)));
        return Err(failure.hint(format!("`--keyless` takes one of {}", known.join(", "))));
    };
    Ok((provider, Some(Keyless::new(vendor, ids)?)))
}

/// The providers for which a key can be stored.
pub fn known_providers() -> Vec<&'static str> {
    PROVIDERS.iter().filter(|kind| is_supported(kind)).map(|kind| kind.name).collect()
}

fn unknown_provider(name: &str) -> Failure {
    if let Some(vendor) = Vendor::of_provider(name) {
        let message = format!("`init runner` stores no key of `{name}`");
        let hint = format!("`--keyless {}` needs none", vendor.name());
        return Failure::new(Exit::Usage, message).hint(hint);
    }
    let known = known_providers();
    let failure = Failure::new(Exit::Usage, format!("unknown provider `{}`", printable(name)));
    failure.hint(format!("`--provider` takes one of {}", known.join(", ")))
}
