use std::collections::BTreeMap;

use serde_json::json;

use super::{aligned, changed, is_of, row, widths};

fn rows(all: &[(&str, &str, &str)]) -> BTreeMap<Vec<String>, Vec<String>> {
    let row = |(name, status, age): &(&str, &str, &str)| {
        let cells = ["default", "CloneSet", name, "1", "1", "1", status, age];
        let cells: Vec<_> = cells.map(str::to_owned).to_vec();
        (cells[..3].to_vec(), cells)
    };
    all.iter().map(row).collect()
}

#[test]
fn ages_alone_are_no_change() {
    let old = rows(&[("a", "Healthy", "1s"), ("b", "Healthy", "1s")]);
    assert!(
        changed(
            &old,
            &rows(&[("a", "Healthy", "2s"), ("b", "Healthy", "2s")])
        )
        .is_empty()
    );
    let new = changed(
        &old,
        &rows(&[("a", "Paused", "2s"), ("c", "Healthy", "2s")]),
    );
    let words: Vec<_> = new.iter().map(|row| (&*row[2], &*row[6])).collect();
    assert_eq!(words, [("a", "Paused"), ("c", "Healthy"), ("b", "Deleted")]);
}

#[test]
fn later_rows_stand_below_the_first() {
    let old = rows(&[("long-name", "Progressing", "1s")]);
    let widths = widths(old.values());
    let row = rows(&[("a", "Healthy", "2s")])
        .into_values()
        .next()
        .unwrap();
    let expected =
        "default     CloneSet   a           1         1       1         Healthy       2s";
    assert_eq!(aligned(&row, &widths), expected);
}

#[test]
fn sidecar_sets_of_other_namespaces_are_left_out() {
    let named = json!({"spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a"}}}});
    assert!(is_of(&named, "a") && is_of(&named, "") && !is_of(&named, "b"));
    assert!(is_of(&json!({}), "b"));
}

#[test]
fn row_names_the_reason_of_a_block() {
    let set = json!({
        "metadata": {"name": "web", "namespace": "n", "creationTimestamp": "2026-11-30T11:59:00Z"},
        "spec": {"replicas": 3},
        "status": {"updatedReplicas": 1, "readyReplicas": 2, "conditions": [
            {"type": "Blocked", "status": "True", "reason": "ImageUnavailable"}]},
    });
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let row = row(super::CLONE_SETS, &set, now);
    let expected = [
        "n",
        "CloneSet",
        "web",
        "1",
        "2",
        "3",
        "Blocked: ImageUnavailable",
        "60s",
    ];
    assert_eq!(row, expected);
}
