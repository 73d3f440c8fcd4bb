use std::sync::Arc;

use serde_json::json;

use super::*;

fn pod(name: &str, requests: &[&str]) -> Arc<Pod> {
    let entries: Vec<_> = requests
            .iter()
            .map(|request| json!({"userAgent": "ContainerRecreateRequest", "key": format!("default/{request}")}))
            .collect();
    let gate =
        json!({"type": "KruisePodReady", "status": "False", "message": json!(entries).to_string()});
    let pod = json!({"metadata": {"namespace": "default", "name": name}, "status": {"conditions": [gate]}});
    Arc::new(serde_json::from_value(pod).unwrap())
}

#[test]
fn pods_are_indexed_by_request_entries() {
    let (all, key) = (Entries::default(), |name: &str| Key::new("default", name));
    let applied = |old: Option<&Arc<Pod>>, new: &Arc<Pod>| Change::Applied {
        old: old.cloned(),
        new: new.clone(),
    };
    let (bare, one, both) = (pod("web", &[]), pod("web", &["a"]), pod("web", &["a", "b"]));
    let of = |request: &str| {
        all.of(&key(request))
            .iter()
            .map(|pod| pod.to_string())
            .collect::<Vec<_>>()
    };
    assert!(all.note(&applied(None, &bare)).is_empty());
    assert_eq!(all.note(&applied(Some(&bare), &both)), [key("a"), key("b")]);
    assert_eq!(all.note(&applied(None, &pod("db", &["a"]))), [key("a")]);
    assert_eq!(of("a"), ["db", "web"]);
    assert_eq!(of("b"), ["web"]);
    assert_eq!(all.note(&applied(Some(&both), &one)), [key("a")]);
    assert!(of("b").is_empty());
    all.note(&Change::Deleted { old: one });
    assert_eq!(of("a"), ["db"]);
    all.note(&applied(Some(&pod("db", &["a"])), &pod("db", &[])));
    assert!(all.lock().is_empty(), "nothing is kept of what is over");
}
