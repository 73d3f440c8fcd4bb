use super::*;

#[test]
fn store_is_current_only_if_read_past_counted_version() {
    let counted = |counted: &str| {
        Some(Ledger {
            counted: counted.to_owned(),
            ..Ledger::default()
        })
    };
    let blocked = |settled: &str| {
        Some(Ledger {
            settled: settled.to_owned(),
            ..Ledger::default()
        })
    };
    for (position, ledger, expected) in [
        (None, None, false),
        (None, counted("7"), false),
        (Some("9"), None, true),
        (Some("9"), counted(""), true),
        (Some("6"), counted("7"), false),
        (Some("7"), counted("7"), true),
        (Some("10"), counted("9"), true),
        (Some("x"), counted("7"), false),
        (None, blocked("7"), false),
        (Some("6"), blocked("7"), false),
        (Some("7"), blocked("7"), true),
    ] {
        assert_eq!(
            is_as_new(position, ledger.as_ref()),
            expected,
            "{position:?} {ledger:?}"
        );
    }
}

#[test]
fn incomplete_first_list_gives_no_pod_count() {
    let store = Store::new(&[BY_NAMESPACE]);
    let pod = serde_json::json!({"metadata": {"namespace": "default", "name": "web", "uid": "u", "resourceVersion": "9"}});
    store.apply(serde_json::from_value::<Pod>(pod).unwrap());
    assert_eq!(store.by_index(&BY_NAMESPACE, "default").len(), 1);
    let ledger = Ledger {
        counted: "7".to_owned(),
        ..Ledger::default()
    };
    assert!(pods_of_count(&store, "default", Some(&ledger)).is_none());
}

#[tokio::test(start_paused = true)]
async fn entries_of_one_pod_and_second_age_separately() {
    let entry = |grant: Option<&str>, generation| {
        LedgerEntry {
            grant: grant.map(str::to_owned),
            generation,
            ..serde_json::from_value(serde_json::json!({
                "pod": "web", "uid": "u", "operation": "EVICT", "holder": "me", "time": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
        }
    };
    for entries in [
        [entry(Some("1"), None), entry(Some("2"), None)],
        [entry(None, Some(1)), entry(None, Some(2))],
    ] {
        let (views, key) = (Views::default(), Key::new("default", "web"));
        views.ages(&key, &entries[..1], &[]);
        for seconds in [[30, 0], [60, 30]] {
            tokio::time::advance(Duration::from_secs(30)).await;
            let ages: Vec<_> = views
                .ages(&key, &entries, &[])
                .into_iter()
                .map(|(age, _)| age.as_secs())
                .collect();
            assert_eq!(ages, seconds, "{entries:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_as_old_as_its_kubelets_knowledge_of_it() {
    let pod = |generation: i64, observed: i64| {
        let metadata = serde_json::json!({"name": "web", "uid": "u", "generation": generation});
        let pod =
            serde_json::json!({"metadata": metadata, "status": {"observedGeneration": observed}});
        [Arc::new(serde_json::from_value::<Pod>(pod).unwrap())]
    };
    for (operation, generation, expected) in [
        ("UPDATE", Some(1), [100, 200, 0, 100]),
        ("RESIZE", Some(1), [100, 200, 0, 100]),
        // The change after the one that the pod shows.
        ("UPDATE", Some(2), [100, 200, 300, 0]),
        // A change that the pod does not show, such as a restart.
        ("UPDATE", None, [100, 200, 300, 400]),
        ("EVICT", None, [100, 200, 300, 400]),
    ] {
        let entry = serde_json::from_value::<LedgerEntry>(serde_json::json!({
            "pod": "web", "uid": "u", "operation": operation, "holder": "me", "time": "2026-01-01T00:00:00Z",
            "generation": generation,
        }));
        let (views, key, entries) = (
            Views::default(),
            Key::new("default", "web"),
            [entry.unwrap()],
        );
        views.ages(&key, &entries, &pod(1, 1));
        for (seen, expected) in [pod(1, 1), pod(2, 1), pod(2, 2), pod(3, 3)]
            .iter()
            .zip(expected)
        {
            tokio::time::advance(Duration::from_secs(100)).await;
            let ages = views.ages(&key, &entries, seen);
            assert_eq!(
                ages[0].0.as_secs(),
                expected,
                "{operation} {generation:?} {seen:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn entry_stays_young_until_its_effects_are_cached() {
    let client =
        Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let entry = serde_json::from_value(serde_json::json!({
        "pod": "web", "uid": "u", "operation": "EVICT", "holder": "me", "time": "2026-01-01T00:00:00Z",
    }));
    let ledger = Ledger {
        entries: vec![entry.unwrap()],
        ..Ledger::default()
    };
    let (pods, nodes) = (
        Store::new(&[BY_NAMESPACE]),
        Store::<Watched<Node>>::new(&[]),
    );
    for (patience, waited, expected) in [
        (75, 74, 74),
        (75, 80, 74),
        (20, 19, 19),
        (20, 60, 19),
        (315, 80, 80),
    ] {
        let patience = Duration::from_secs(patience);
        let (views, key) = (Views::default(), Key::new("default", "web"));
        views.ages(&key, &ledger.entries, &[]);
        tokio::time::advance(Duration::from_secs(waited)).await;
        let looks = views.looks(&pods, &nodes, Some(&ledger), patience).unwrap();
        let unknown = Err(Unknown {
            message: "no scale".to_owned(),
        });
        // The apiserver does not answer, so the store may lack effects of a late entry.
        let view = looks
            .view(&client, key, (Vec::new(), |_: &Pod| false), unknown)
            .await;
        assert_eq!(
            (view.patience, view.seen_for),
            (patience, vec![Duration::from_secs(expected)]),
            "{waited}"
        );
    }
}

#[test]
fn a_pod_is_unseen_until_it_was_there_once_or_has_gone() {
    let entry = |uid: &str| -> LedgerEntry {
        serde_json::from_value(serde_json::json!({
                "pod": uid, "uid": uid, "operation": "EVICT", "holder": "me", "time": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
    };
    let (views, key, entries) = (
        Views::default(),
        Key::new("default", "web"),
        ["a", "b", "c"].map(entry),
    );
    let pod = |uid: &str| {
        let pod =
            serde_json::json!({"metadata": {"namespace": "default", "name": uid, "uid": uid}});
        Arc::new(serde_json::from_value::<Pod>(pod).unwrap())
    };
    views.note_gone("b");
    for (pods, expected) in [
        (vec![pod("a")], vec!["c"]),
        (vec![], vec!["c"]),
        (vec![pod("c")], vec![]),
        (vec![], vec![]),
    ] {
        views.ages(&key, &entries, &pods);
        assert_eq!(
            views
                .unseen(&key, &entries, &pods)
                .into_iter()
                .collect::<Vec<_>>(),
            expected
        );
    }
}
