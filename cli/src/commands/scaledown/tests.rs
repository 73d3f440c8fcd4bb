use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn pods_follow_the_object() {
    for (text, object, pods) in [
        ("clone/web a b", 1, 2),
        ("clone web a", 2, 1),
        ("clone/web", 1, 0),
        ("clone", 1, 0),
    ] {
        let words = words(text);
        let (first, rest) = split(&words);
        assert_eq!((first.len(), rest.len()), (object, pods), "{text}");
    }
}

fn web(replicas: i64, listed: &[&str]) -> Value {
    json!({
        "metadata": {"name": "web", "uid": "u"},
        "spec": {"replicas": replicas, "scaleStrategy": {"podsToDelete": listed, "enablePVCReuse": true}},
    })
}

#[test]
fn cloneset_loses_pods_and_replicas() {
    let new = cloneset(&web(5, &["old"]), &words("a b"), None).unwrap();
    assert_eq!(new["spec"], web(3, &["old", "a", "b"])["spec"]);
    let bare = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1}});
    let new = cloneset(&bare, &words("a"), None).unwrap();
    assert_eq!(new["spec"]["scaleStrategy"]["podsToDelete"], json!(["a"]));
}

#[test]
fn cloneset_refuses_impossible_numbers() {
    for (replicas, listed, wanted) in [
        (1, &[][..], None),
        (5, &["a"][..], None),
        (5, &[][..], Some(6)),
        (5, &[][..], Some(-1)),
    ] {
        let refused = cloneset(&web(replicas, listed), &words("a b"), wanted);
        assert!(refused.is_err(), "{replicas} {listed:?} {wanted:?}");
    }
}

#[test]
fn pods_of_others_are_refused() {
    let pod = |name: &str, uid: &str| json!({"metadata": {"name": name, "ownerReferences": [{"uid": uid, "controller": true}]}});
    let mut going = pod("c", "u");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let all = [pod("a", "u"), pod("b", "other"), going];
    for (pods, is_allowed) in [
        ("a", true),
        ("b", false),
        ("c", false),
        ("d", false),
        ("a a", false),
    ] {
        let checked = check_pods(&all, &web(1, &[]), "cloneset/web", &words(pods));
        assert_eq!(checked.is_ok(), is_allowed, "{pods}");
    }
}

/// A StatefulSet of this many replicas with these reservations.
fn db(replicas: i32, reserved: Value, start: i32) -> Value {
    json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas, "reserveOrdinals": reserved, "ordinals": {"start": start},
            "selector": {}, "template": {"metadata": {}, "spec": {}},
        },
    })
}

#[test]
fn statefulset_reserves_ordinals_below_the_last() {
    for (replicas, reserved, pods, expected) in [
        (5, json!([]), "db-1", json!([1])),
        (5, json!([]), "db-4", json!([])),
        (5, json!([]), "db-4 db-1", json!([1])),
        (5, json!([]), "db-3 db-4", json!([])),
        (3, json!(["1-2"]), "db-0", json!(["1-2", 0])),
        (1, json!([]), "db-0", json!([])),
    ] {
        let pods = words(pods);
        let new = statefulset(&db(replicas, reserved, 0), &pods, None, false).unwrap();
        let listed = new["spec"]["reserveOrdinals"].clone();
        assert_eq!(listed, expected, "{replicas} {pods:?}");
        let left = i64::from(replicas) - i64::try_from(pods.len()).unwrap();
        assert_eq!(new["spec"]["replicas"], left, "{replicas} {pods:?}");
    }
    for pods in ["db-7", "db-x", "other-1"] {
        assert!(statefulset(&db(3, json!([]), 0), &words(pods), None, false).is_err());
    }
}

#[test]
fn all_other_pods_of_a_statefulset_stay() {
    let ordinals_of = |object: &Value| {
        let spec: StatefulSetSpec = serde_json::from_value(object["spec"].clone()).unwrap();
        ordinals(&spec, true).unwrap().iter().collect::<Vec<_>>()
    };
    for (replicas, reserved, start) in [
        (1, json!([]), 0),
        (6, json!([]), 3),
        (5, json!([0, "2-3"]), 0),
        (4, json!(["5-9", 11]), 4),
    ] {
        let old = db(replicas, reserved, start);
        let all = ordinals_of(&old);
        for chosen in 1_u32..(1 << all.len()) {
            let is_chosen = |at: usize| chosen & (1 << at) != 0;
            let pods = (0..all.len()).filter(|at| is_chosen(*at));
            let pods: Vec<_> = pods.map(|at| format!("db-{}", all[at])).collect();
            let new = statefulset(&old, &pods, None, true).unwrap();
            let stay = (0..all.len()).filter(|at| !is_chosen(*at));
            let stay: Vec<_> = stay.map(|at| all[at]).collect();
            assert_eq!(ordinals_of(&new), stay, "{old} {pods:?}");
        }
    }
}
