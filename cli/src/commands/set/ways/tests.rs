use serde_json::json;

use super::*;

fn web(image: &str, updated: i64) -> Value {
    json!({
        "spec": {
            "template": {"spec": {"containers": [{"name": "app", "image": image}]}},
            "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}},
        },
        "status": {"updatedReplicas": updated, "currentRevision": "web-1a"},
    })
}

#[test]
fn both_revisions_of_the_pods_have_their_way() {
    let cluster = Cluster::default();
    let ways = |updated, current: Option<Value>| {
        let old = web("web:2", updated);
        of(
            CLONE_SETS,
            (&old, current.as_ref()),
            &web("web:1", 0),
            &cluster,
        )
        .unwrap()
    };
    let in_place =
        "in place: the pods stay, with their nodes and addresses; container app restarts";
    assert_eq!(ways(3, None), [in_place]);
    assert_eq!(ways(3, Some(web("web:0", 0))), [in_place]);
    assert_eq!(ways(0, Some(web("web:1", 0))), ["no pod changes"]);
    assert_eq!(
        ways(1, Some(web("web:1", 0))),
        [
            format!("updated pods: {in_place}"),
            "pods of revision web-1a: no pod changes".to_owned()
        ]
    );
}
