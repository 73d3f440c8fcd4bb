//! Whether a container that a pod has already is the one that an earlier call put there. The pod's records alone do not say so, for
//! whoever creates a pod may have copied them from another.

use serde_json::{Map, Value};

use super::super::hash;

/// Fields that admission changes in containers of others, which a second call must not undo: an image becomes that of a mirror, a probe
/// goes another way, a policy takes privileges. (An image is compared with the records later, and told.)
const CHANGED_BY_OTHERS: [&str; 10] = [
    "image",
    "imagePullPolicy",
    "env",
    "resources",
    "volumeMounts",
    "volumeDevices",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "securityContext",
];
/// Lists that are one thing: with another item in it another program runs.
const WHOLE: [&str; 2] = ["command", "args"];

/// Whether a container may have been made of a sidecar's own fields. The apiserver has filled in defaults since, and dropped what it
/// does not know; others may have added something, but no other program.
pub(super) fn is_made_of(own: &Map<String, Value>, found: &Map<String, Value>) -> bool {
    let (mut own, found) = (hash::known(own), hash::known(found));
    if let Some(own) = own.as_object_mut() {
        // Of a pair each has a name of its own.
        own.retain(|field, _| field != "name" && !CHANGED_BY_OTHERS.contains(&field.as_str()));
    }
    WHOLE.iter().all(|field| own[*field] == found[*field]) && is_within(&own, &found)
}

/// Whether all of the one is in the other.
fn is_within(own: &Value, found: &Value) -> bool {
    match (own, found) {
        (Value::Object(own), Value::Object(found)) => own.iter().all(|(field, own)| {
            let is_whole = WHOLE.contains(&field.as_str());
            found.get(field).is_some_and(|found| if is_whole { own == found } else { is_within(own, found) })
        }),
        (Value::Array(own), Value::Array(found)) => {
            own.iter().all(|own| found.iter().any(|found| is_within(own, found)))
        }
        _ => own == found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_the_sidecars_whatever_was_added_but_for_another_program() {
        let own = json!({
            "name": "agent", "image": "agent:1", "args": ["run", "fast"], "imagePullPolicy": "IfNotPresent",
            "ports": [{"containerPort": 80, "hostPort": 0, "name": ""}], "envFrom": [{"secretRef": {"name": "s"}}],
            "lifecycle": {"preStop": {"exec": {"command": ["stop", "now"]}}}, "readinessProbe": {"tcpSocket": {"port": 80}},
            "securityContext": {"privileged": true}, "workingDir": "", "stdin": false, "tty": null,
            "misspelled": 1, "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "A", "value": "1"}],
        });
        let stop =
            |command: Value| json!({"preStop": {"exec": {"command": command}}, "postStart": {"sleep": {"seconds": 1}}});
        for (what, changed, expected) in [
            ("as it is", json!({}), true),
            ("without what is empty or unknown", json!({"workingDir": null, "stdin": null, "misspelled": null}), true),
            ("with a default", json!({"ports": [{"containerPort": 80, "protocol": "TCP"}]}), true),
            ("with another default", json!({"terminationMessagePath": "/dev/termination-log"}), true),
            ("with another port", json!({"ports": [{"containerPort": 9}, {"containerPort": 80}]}), true),
            ("with another hook", json!({"lifecycle": stop(json!(["stop", "now"]))}), true),
            ("with what others change", json!({"image": "mirror/agent:1", "imagePullPolicy": "Always"}), true),
            ("with another probe", json!({"readinessProbe": {"httpGet": {"path": "/agent", "port": 15020}}}), true),
            ("with fewer privileges", json!({"securityContext": {"privileged": false}}), true),
            ("with other variables and resources", json!({"env": null, "resources": {}}), true),
            ("as one of a pair", json!({"name": "agent-1", "image": "empty:1"}), true),
            ("with a command", json!({"command": ["sleep", "inf"]}), false),
            ("with other arguments", json!({"args": ["run", "slow"]}), false),
            ("with more arguments", json!({"args": ["run", "fast", "idle"]}), false),
            ("with fewer arguments", json!({"args": ["run"]}), false),
            ("without arguments", json!({"args": null}), false),
            ("with other ports", json!({"ports": [{"containerPort": 81}]}), false),
            ("without the hook", json!({"lifecycle": {}}), false),
            ("with a hook that does something else", json!({"lifecycle": stop(json!(["stop"]))}), false),
            ("without the secret", json!({"envFrom": [{"configMapRef": {"name": "s"}}]}), false),
        ] {
            let mut found = own.as_object().unwrap().clone();
            found.extend(changed.as_object().unwrap().clone());
            assert_eq!(is_made_of(own.as_object().unwrap(), &found), expected, "{what}");
        }
    }

    #[test]
    fn a_field_that_the_sidecar_has_not_may_be_there() {
        let (own, found) = (json!({"name": "agent"}), json!({"name": "agent", "workingDir": "/", "lifecycle": {}}));
        let map = |value: &Value| value.as_object().unwrap().clone();
        assert!(is_made_of(&map(&own), &map(&found)));
        assert!(!is_made_of(&map(&found), &map(&own)));
    }
}
