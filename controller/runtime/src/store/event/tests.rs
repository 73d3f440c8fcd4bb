use berth_workload::objects::pod::Pod;

use super::*;

#[test]
fn events() {
    let object = r#"{"kind":"Pod","metadata":{"namespace":"a","name":"b","uid":"u","resourceVersion":"7","managedFields":[{}]}}"#;
    let line = |kind: &str, object: &str| format!(r#"{{"type":"{kind}","object":{object}}}"#);
    let decoded = |text: String| event::<Pod>(text.as_bytes(), None).unwrap();
    assert!(
        matches!(decoded(line("ADDED", object)), Event::Applied(pod) if &*pod.metadata.uid == "u")
    );
    assert!(
        matches!(decoded(line("DELETED", object)), Event::Deleted(pod) if &*pod.metadata.name == "b")
    );
    let end = r#"{"kind":"Pod","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null}}"#;
    assert!(
        matches!(decoded(line("BOOKMARK", end)), Event::Bookmark { version, initial_end: true } if version == "9")
    );
    assert!(
        matches!(decoded(line("BOOKMARK", object)), Event::Bookmark { version, initial_end: false } if version == "7")
    );
    let gone =
        r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}"#;
    assert!(matches!(decoded(line("ERROR", gone)), Event::Error(failed) if failed.code == 410));
    assert!(event::<Pod>(b"{}", None).is_err());
    assert!(matches!(decoded(line("NEW", object)), Event::Odd(odd) if odd.error.contains("NEW")));
}

#[test]
fn unreadable_object_is_named_and_isolated() {
    let odd = r#"{"metadata":{"namespace":"a","name":"odd","resourceVersion":"8"},"spec":{"containers":"none"}}"#;
    let line = format!(r#"{{"type":"MODIFIED","object":{odd}}}"#);
    let Event::Odd(found) = event::<Pod>(line.as_bytes(), None).unwrap() else {
        panic!("decoded")
    };
    assert_eq!(
        (&*found.namespace, &*found.name, &*found.version, found.gone),
        ("a", "odd", "8", false)
    );
    let Event::Odd(found) =
        event::<Pod>(line.replace("MODIFIED", "DELETED").as_bytes(), None).unwrap()
    else {
        panic!("decoded")
    };
    assert!(found.gone);
    let list = format!(
        r#"{{"metadata":{{"resourceVersion":"5","continue":"c"}},"items":[{odd},{{"metadata":{{"name":"good"}}}}]}}"#
    );
    let page = page::<Pod>(list.as_bytes(), None).unwrap();
    assert_eq!((page.version.as_str(), page.next.as_str()), ("5", "c"));
    assert_eq!(
        page.items
            .iter()
            .map(|pod| &*pod.metadata.name)
            .collect::<Vec<_>>(),
        ["good"]
    );
    assert_eq!(
        page.odd
            .iter()
            .map(|odd| odd.name.as_str())
            .collect::<Vec<_>>(),
        ["odd"]
    );
}

#[test]
fn unreadable_metadata_keeps_owner_references() {
    let odd = r#"{"metadata":{"namespace":"a","name":"odd","uid":"u","resourceVersion":"8","deletionTimestamp":"x","labels":7,
            "ownerReferences":[{"apiVersion":"apps.kruise.io/v1beta1","kind":"CloneSet","name":"web","uid":"w","controller":true}]}}"#;
    let found = one::<Pod>(odd, None).unwrap_err();
    assert_eq!(
        (
            &*found.namespace,
            &*found.name,
            &*found.uid,
            &*found.version
        ),
        ("a", "odd", "u", "8")
    );
    assert_eq!(
        (
            &*found.owners[0].uid,
            found.owners[0].controller,
            found.terminating
        ),
        ("w", true, true)
    );
    assert_eq!(one::<Pod>("7", None).unwrap_err().name, "");
}

#[test]
fn an_empty_list_may_be_null() {
    let page = page::<Pod>(
        br#"{"metadata":{"resourceVersion":"5"},"items":null}"#,
        None,
    )
    .unwrap();
    assert!(page.items.is_empty() && page.next.is_empty());
}

#[test]
fn only_objects_beyond_a_limit_are_odd() {
    let limits = Limits::of_specs(200 << 10);
    let object = |name: &str, template: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}","managedFields":[{}]}},"spec":{{"template":{template}}}}}"#,
            deep(10_000)
        )
    };
    let nested = object("nested", &deep(10_000));
    let bomb = object(
        "bomb",
        &format!("[{}]", vec![r#"{"":0}"#; 20_000].join(",")),
    );
    let long = object("long", &format!("{:?}", "x".repeat(200 << 10)));
    let sound = object("sound", &deep(50));
    let list = format!(r#"{{"metadata":{{}},"items":[{nested},{bomb},{sound},{long}]}}"#);
    let page = page::<CloneSetSpecOnly>(list.as_bytes(), Some(&limits)).unwrap();
    assert_eq!(page.items.len(), 1);
    let odd: Vec<_> = page
        .odd
        .iter()
        .map(|odd| (odd.name.as_str(), odd.error.as_str()))
        .collect();
    let says = [
        ("nested", "spec: is nested"),
        ("bomb", "JSON values"),
        ("long", "--object-max-bytes"),
    ];
    assert_eq!(odd.len(), says.len());
    for ((name, error), (named, says)) in odd.into_iter().zip(says) {
        assert!(name == named && error.contains(says), "{name}: {error}");
    }
    let line = format!(r#"{{"type":"MODIFIED","object":{bomb}}}"#);
    let event = event::<CloneSetSpecOnly>(line.as_bytes(), Some(&limits)).unwrap();
    assert!(matches!(event, Event::Odd(odd) if odd.name == "bomb"));
}

#[test]
fn pod_beyond_a_bound_is_odd_and_keeps_little() {
    let owner = |kind: &str, controller: bool| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"{kind}","name":"n","uid":"u","controller":{controller}}}"#
        )
    };
    let long = "K".repeat(400_000);
    let mut owners = vec![owner("ReplicaSet", false); 100];
    owners.extend([owner(&long, false), owner("CloneSet", true)]);
    let fat = |field: &str| {
        format!(
            r#"{{"metadata":{{"name":"fat"}},"spec":{{"containers":[{{"name":"c",{field}}}]}}}}"#
        )
    };
    let table = [
        (
            format!(
                r#"{{"metadata":{{"name":"fat","ownerReferences":[{}]}}}}"#,
                owners.join(",")
            ),
            "].kind: has 400000",
        ),
        (
            fat(&format!(r#""image":"{long}""#)),
            "spec.containers[c].image: has 400000 bytes, and 1024",
        ),
        (fat(&format!(r#""image":["{long}"]"#)), "invalid type"),
        (
            format!(r#"{{"metadata":{{"name":"fat","labels":"{long}"}}}}"#),
            "invalid type",
        ),
    ];
    for (pod, says) in table {
        let odd = one::<Pod>(&pod, Some(&Limits::of_pods())).unwrap_err();
        assert!(
            odd.name == "fat" && odd.error.contains(says) && odd.error.len() <= LONGEST_ERROR,
            "{}",
            odd.error
        );
        assert!(
            odd.owners.len() <= MOST_OWNERS && odd.owners.iter().all(|owner| owner.kind.len() < 64)
        );
        assert!(
            odd.owners
                .first()
                .is_none_or(|owner| owner.controller && *owner.kind == *"CloneSet")
        );
    }
}

#[derive(Debug, Deserialize)]
struct CloneSetSpecOnly {
    #[serde(rename = "spec")]
    _spec: serde_json::Value,
    #[serde(rename = "metadata")]
    _metadata: serde_json::Value,
}

fn deep(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}
