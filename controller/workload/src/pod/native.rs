//! The native sidecars of a pod: init containers that run beside its containers.

use serde::{Deserialize, Deserializer};

use super::container::Container;
use super::word::Word;

/// Keeps the init containers that restart, and nothing of the others: those have ended before the pod serves, and no update concerns
/// them. No init container ever becomes one that restarts.
pub(super) fn sidecars<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<[Container]>, D::Error> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Init {
        restart_policy: Option<Word>,
        #[serde(flatten)]
        container: Container,
    }
    let all = Option::<Vec<Init>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(all
        .into_iter()
        .filter(|init| init.restart_policy.as_deref() == Some("Always"))
        .map(|init| init.container)
        .collect())
}

#[cfg(test)]
mod tests;
