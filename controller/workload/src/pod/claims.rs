//! The claims that a pod mounts, read from its volumes.

use serde::{Deserialize, Deserializer};

/// Keeps the claims' names, and nothing else of the volumes: most pods have none.
pub(super) fn of_volumes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<[Box<str>]>, D::Error> {
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Volume {
        persistent_volume_claim: Option<Source>,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Source {
        claim_name: Box<str>,
    }
    let volumes = Option::<Vec<Volume>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(volumes.into_iter().filter_map(|volume| Some(volume.persistent_volume_claim?.claim_name)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::pod::Pod;

    #[test]
    fn of_a_pods_volumes_only_the_names_of_claims_are_kept() {
        let claim = |name: &str| json!({"name": "v", "persistentVolumeClaim": {"claimName": name, "readOnly": true}});
        let token = json!({"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
        let none: [&str; 0] = [];
        for (volumes, expected) in [
            (Value::Null, none.to_vec()),
            (json!([]), none.to_vec()),
            (json!([token]), none.to_vec()),
            (
                json!([token, claim("data-db-0"), {"name": "tmp", "emptyDir": {}}, claim("log-db-0")]),
                vec!["data-db-0", "log-db-0"],
            ),
        ] {
            let pod = json!({"metadata": {"name": "db-0"}, "spec": {"volumes": volumes}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let claims: Vec<_> = pod.spec.claims.iter().map(|name| &**name).collect();
            assert_eq!(claims, expected, "{volumes}");
        }
        let without: Pod = serde_json::from_value(json!({"metadata": {}, "spec": {}})).unwrap();
        assert!(without.spec.claims.is_empty());
    }
}
