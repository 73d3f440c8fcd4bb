//! Fields of a pod template that no type here knows, at each level.

use serde_json::{Value, json};

/// The paths of objects that hold such a field.
const PLACES: [&str; 9] = [
    "/metadata",
    "/spec",
    "/spec/securityContext",
    "/spec/volumes/0",
    "/spec/volumes/0/projected/sources/0",
    "/spec/initContainers/0",
    "/spec/containers/0",
    "/spec/containers/0/securityContext",
    "/spec/containers/0/env/0/valueFrom",
];

/// A template's metadata and spec, to be merged into one whose container is `main`. Each place has
/// the field, and an empty one.
pub(crate) fn template(image: &str, value: &Value) -> Value {
    let container = |name: &str| {
        let from = json!({"secretKeyRef": {"name": "c", "key": "k"}});
        let env = json!([{"name": "KEY", "valueFrom": from}]);
        json!({"name": name, "image": image, "env": env, "securityContext": {"runAsUser": 1}})
    };
    let mut template = json!({"metadata": {}, "spec": {
        "securityContext": {"runAsGroup": 1},
        "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}],
        "initContainers": [container("init")], "containers": [container("main")],
    }});
    for place in PLACES {
        let holder = template.pointer_mut(place).unwrap();
        holder["isNew"] = value.clone();
        holder["choosesByBeingThere"] = json!({});
    }
    template
}

/// A value with parts that types usually leave out.
pub(crate) fn value(number: i32) -> Value {
    json!({"list": [{"text": "", "flag": false, "zero": 0}], "empty": {}, "number": number})
}

/// The paths at which a pod lacks the field with this value.
pub(crate) fn lacking(pod: &Value, value: &Value) -> Vec<&'static str> {
    let has = |place: &str| {
        let holder = pod.pointer(place);
        holder.is_some_and(|holder| {
            holder["isNew"] == *value && holder["choosesByBeingThere"] == json!({})
        })
    };
    PLACES.into_iter().filter(|place| !has(place)).collect()
}

/// The same template with another value in one place alone, for each place.
pub(crate) fn changed_in_each_place(template: &Value, value: &Value) -> Vec<(&'static str, Value)> {
    let changed = |place: &str, change: &dyn Fn(&mut Value)| {
        let mut changed = template.clone();
        change(changed.pointer_mut(place).unwrap());
        changed
    };
    let values = PLACES.map(|place| {
        (
            place,
            changed(place, &|holder| holder["isNew"] = value.clone()),
        )
    });
    let without = |holder: &mut Value| {
        drop(
            holder
                .as_object_mut()
                .unwrap()
                .remove("choosesByBeingThere"),
        )
    };
    values
        .into_iter()
        .chain(PLACES.map(|place| (place, changed(place, &without))))
        .collect()
}
