use berth_api::v1beta1::{SidecarSet, UnitedDeployment};
use berth_runtime::metrics::Metrics;
use serde_json::{Value, json};

use super::*;

fn store<K: Kind>(objects: Vec<Value>) -> Arc<Store<Watched<K>>> {
    let store = Store::new(&[]);
    for object in objects {
        store.apply(serde_json::from_value(object).unwrap());
    }
    store
}

fn metrics<K: Kind + CountsPods>(store: &Arc<Store<Watched<K>>>) -> Arc<Metrics> {
    Metrics::new(|registry| register(registry, store))
}

fn united(subsets: usize) -> Value {
    let subset =
        |at: usize| json!({"name": format!("zone-{at}"), "replicas": 3, "readyReplicas": 2});
    json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"},
        "spec": {"selector": {}, "template": {}, "topology": {"subsets": []}},
        "status": {"subsetStatuses": (0..subsets).map(subset).collect::<Vec<_>>()},
    })
}

fn set(name: &str, missed: i32) -> Value {
    json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"containers": []},
        "status": {"injection": {"selected": 3, "injected": 2, "missed": missed}},
    })
}

#[test]
fn series_follow_statuses_until_deletion() {
    let sets = store::<SidecarSet>(vec![set("log", 1), set("mesh", 0)]);
    let of_sets = metrics(&sets);
    let text = of_sets.encode();
    for line in [
        "berth_sidecarset_pods{sidecarset=\"log\",state=\"missed\"} 1",
        "berth_sidecarset_pods{sidecarset=\"mesh\",state=\"not_upgradable\"} 0",
    ] {
        assert!(text.contains(line), "{text}");
    }
    sets.remove("", "log", None);
    let text = of_sets.encode();
    assert!(
        !text.contains("\"log\"") && text.contains("\"mesh\""),
        "{text}"
    );

    let text = metrics(&store::<UnitedDeployment>(vec![united(2)])).encode();
    for (state, count) in [("wanted", 3), ("ready", 2), ("reserved", 0)] {
        let subset = "namespace=\"default\",uniteddeployment=\"web\",subset=\"zone-1\"";
        let line = format!("berth_uniteddeployment_pods{{{subset},state=\"{state}\"}} {count}");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn series_of_tenants_are_bounded() {
    let text = metrics(&store::<UnitedDeployment>(vec![united(MOST_SERIES)])).encode();
    let lines = text
        .lines()
        .filter(|line| line.starts_with(UnitedDeployment::METRIC));
    assert_eq!(lines.count(), MOST_SERIES);
}
