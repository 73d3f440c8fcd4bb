//! The volumes of a pod that are claims.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

/// Keeps the names of volumes that are claims, and nothing else of the volumes: most pods have none. Not the claims' names, which a
/// webhook may have changed.
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
mod tests {
    use serde_json::{Value, json};

    use crate::pod::Pod;

    #[test]
    fn of_a_pods_volumes_only_the_names_of_those_that_are_claims_are_kept() {
        let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": "any", "readOnly": true}});
        let token = json!({"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
        let none: [&str; 0] = [];
        for (volumes, expected) in [
            (Value::Null, none.to_vec()),
            (json!([]), none.to_vec()),
            (
                json!([token, {"name": "null", "persistentVolumeClaim": null}]),
                none.to_vec(),
            ),
            (
                json!([token, claim("data"), {"name": "tmp", "emptyDir": {}}, claim("log")]),
                vec!["data", "log"],
            ),
        ] {
            let pod = json!({"metadata": {"name": "db-0"}, "spec": {"volumes": volumes}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let names: Vec<_> = pod.spec.claim_volumes.iter().map(|name| &**name).collect();
            assert_eq!(names, expected, "{volumes}");
        }
        let without: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {}})).unwrap();
        assert!(without.spec.claim_volumes.is_empty());
    }
}
