//! The volumes of a pod that are claims.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// Keeps the names of volumes that are claims, and drops the rest, because most pods have none. The
/// claims' own names are not kept, because a webhook may have changed them.
pub(super) fn of_claims<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Box<[Box<str>]>, D::Error> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Volume {
        name: Box<str>,
        persistent_volume_claim: Option<IgnoredAny>,
    }
    let volumes = Option::<Vec<Volume>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(volumes
        .into_iter()
        .filter_map(|volume| volume.persistent_volume_claim.map(|_| volume.name))
        .collect())
}

#[cfg(test)]
mod tests;
