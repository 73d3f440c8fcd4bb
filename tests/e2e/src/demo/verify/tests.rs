use serde_json::json;

use super::*;
use crate::record::ContainerView;

const A: &str = "sha256:aaaaaaaaaaaaaaaaaaaa";
const B: &str = "sha256:bbbbbbbbbbbbbbbbbbbb";

fn pod(wanted: &str, image_id: &str) -> PodView {
    let view = ContainerView {
        wanted: wanted.into(),
        image_id: image_id.into(),
        ..ContainerView::default()
    };
    PodView {
        containers: [("main".to_owned(), view)].into(),
        ..crate::record::tests::pod("a", "r", true)
    }
}

#[test]
fn image_id_matches_regardless_of_repository() {
    let annotations =
        json!({"apps.kruise.io/inplace-update-state": "{\"berthVerifiedBy\": \"pod\"}"});
    let pulled = json!({"status": {"imageStatuses": {"reg:5000/hello": {"tags": [
        {"tag": "1", "imageIDs": [B]}, {"tag": "2", "imageIDs": [B, A]},
    ]}}}});
    let runs = pod("reg:5000/hello:2", &format!("docker.io/other@{A}"));
    let same = Verified::Same {
        id: "aaaaaaaaaaaa".into(),
        by: "pod".into(),
    };
    assert_eq!(verify(&runs, "main", &annotations, &pulled), same);
    let fact = json!({"status": {"imageFacts": [{"image": "reg:5000/hello:2", "imageIDs": [A]}]}});
    assert_eq!(verify(&runs, "main", &annotations, &fact), same);
}

#[test]
fn another_id_differs_and_no_word_is_unknown() {
    let facts = json!({"status": {"imageFacts": [{"image": "hello:2", "imageIDs": [B]}]}});
    let differs = Verified::Differs {
        runs: "aaaaaaaaaaaa".into(),
        wanted: vec!["bbbbbbbbbbbb".into()],
    };
    assert_eq!(
        verify(&pod("hello:2", A), "main", &json!({}), &facts),
        differs
    );
    for (image, node) in [
        ("hello:1", facts.clone()),
        ("hello:2", json!({})),
        ("hello:2", json!({"status": null})),
    ] {
        assert_eq!(
            verify(&pod(image, A), "main", &json!({}), &node),
            Verified::Unknown,
            "{image} {node}"
        );
    }
    assert_eq!(
        verify(&pod("hello:2", ""), "main", &json!({}), &facts),
        Verified::Unknown
    );
}
