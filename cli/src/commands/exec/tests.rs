use serde_json::json;

use super::*;

fn pod(name: &str, ready: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    })
}

#[test]
fn ready_pod_is_chosen_first() {
    let mut going = pod("a", "True", "Running");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let all = vec![
        going,
        pod("b", "False", "Running"),
        pod("d", "True", "Running"),
        pod("c", "True", "Running"),
        pod("e", "False", "Pending"),
    ];
    let web = json!({"metadata": {"uid": "u"}});
    let name = |pods: Vec<Value>| chosen(pods, &web).map(|pod| objects::name(&pod).to_owned());
    assert_eq!(name(all.clone()).as_deref(), Some("c"));
    assert_eq!(name(all[..2].to_vec()).as_deref(), Some("b"));
    assert_eq!(name(all[4..].to_vec()), None);
    let mut own = pod("z", "False", "Running");
    own["metadata"]["ownerReferences"] = json!([{"uid": "u", "controller": true}]);
    assert_eq!(name([all, vec![own]].concat()).as_deref(), Some("z"));
}

fn injected(working: &str, version: &str) -> Value {
    let records =
        json!({"logging": {"hash": "h", "sidecarList": ["cold", "hot"]}, "older": "hash"});
    json!({
        "metadata": {"name": "web", "annotations": {
            "kruise.io/sidecarset-hash": records.to_string(),
            "kruise.io/sidecarset-working-hotupgrade-container": working,
            "version.sidecarset.kruise.io/hot-1": "0",
            "version.sidecarset.kruise.io/hot-2": version,
        }},
        "spec": {"containers": [{"name": "app"}, {"name": "cold"}, {"name": "hot-1"}, {"name": "hot-2"}]},
    })
}

#[test]
fn working_container_of_a_hot_pair_is_found() {
    let hot_2 = r#"{"hot": "hot-2"}"#;
    for (working, version, sidecar, wanted, expected) in [
        (hot_2, "0", "logging", None, Some("cold")),
        (hot_2, "0", "logging", Some("hot"), Some("hot-2")),
        (hot_2, "0", "hot", None, Some("hot-2")),
        (r#"{"hot": "app"}"#, "0", "hot", None, Some("hot-1")),
        ("", "7", "hot", None, Some("hot-2")),
        ("", "0", "hot", None, Some("hot-1")),
        ("", "0", "cold", None, Some("cold")),
        ("", "0", "other", None, None),
        ("", "0", "logging", Some("app"), None),
        ("", "0", "cold", Some("cold"), None),
    ] {
        let pod = injected(working, version);
        let found = sidecar_in(&pod, sidecar, wanted).ok();
        assert_eq!(
            found.as_deref(),
            expected,
            "{working} {version} {sidecar} {wanted:?}"
        );
    }
    let bare = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app"}]}});
    assert!(sidecar_in(&bare, "logging", None).is_err());
}

#[test]
fn kubectl_gets_the_same_cluster_and_user() {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        global: Global,
    }
    let words = "x --context c --kubeconfig k --as u --as-group g --as-group h";
    let line = <Line as clap::Parser>::parse_from(words.split_whitespace());
    let expected = "--namespace=n --context=c --kubeconfig k --as=u --as-group=g --as-group=h";
    let expected: Vec<_> = expected.split(' ').map(OsString::from).collect();
    assert_eq!(arguments(&line.global, "n"), expected);
}
