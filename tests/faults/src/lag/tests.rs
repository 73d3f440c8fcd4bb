use std::time::Duration;

use super::*;

fn body(lines: &[&str]) -> Body {
    Body::from(
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
            .into_bytes(),
    )
}

fn event(version: u32) -> String {
    format!(r#"{{"type":"MODIFIED","object":{{"metadata":{{"resourceVersion":"{version}"}}}}}}"#)
}

fn serve(
    lags: &Arc<Lags>,
    watch: Watch,
    body: Body,
) -> impl Stream<Item = kube::Result<Bytes>> + Unpin {
    Box::pin(Arc::clone(lags).events((watch, || {}), body))
}

fn watch(query: &str) -> Option<Watch> {
    Watch::of(&format!("/api/v1/pods?{query}").parse().unwrap())
}

#[test]
fn a_watch_is_read_from_a_watching_request_and_from_no_other() {
    let known = |version: &str| {
        Some(Watch {
            resource: "pods".to_owned(),
            version: version.to_owned(),
            tells_again: false,
        })
    };
    assert_eq!(watch("watch=true&resourceVersion=7"), known("7"));
    assert_eq!(
        watch("watch=true&sendInitialEvents=true&resourceVersion=7"),
        known("")
    );
    assert_eq!(watch("limit=500"), None);
    let uri = "/api/v1/pods?watch=true&resourceVersion=7&allowWatchBookmarks=true"
        .parse()
        .unwrap();
    let instead = Watch::from_version(&uri, "3").unwrap();
    assert_eq!(
        instead,
        "/api/v1/pods?watch=true&resourceVersion=3&allowWatchBookmarks=true"
    );
}

#[test]
fn only_reads_with_a_version_may_get_old_state() {
    for (query, is_old) in [
        ("", false),
        ("?limit=500&continue=abc", false),
        ("?resourceVersion=", false),
        ("?watch=true&resourceVersion=7", false),
        (
            "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=",
            false,
        ),
        ("?limit=500&resourceVersion=0", true),
        ("?resourceVersion=7&resourceVersionMatch=NotOlderThan", true),
        ("?watch=true&sendInitialEvents=true&resourceVersion=0", true),
    ] {
        assert_eq!(
            asks_for_the_past(&format!("/api/v1/pods{query}").parse().unwrap()),
            is_old,
            "{query}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn late_events_of_a_resource_arrive_when_the_lag_ends() {
    let lags = Arc::new(Lags::new());
    lags.begin(Lag::Late, "pods");
    let mut events = serve(
        &lags,
        watch("watch=1&resourceVersion=7").unwrap(),
        body(&[&event(8)]),
    );
    assert!(
        tokio::time::timeout(Duration::from_secs(9), events.next())
            .await
            .is_err()
    );
    let other = Watch {
        resource: "nodes".to_owned(),
        version: "1".to_owned(),
        tells_again: false,
    };
    assert!(
        serve(&lags, other, body(&[&event(8)]))
            .next()
            .await
            .is_some()
    );
    lags.end();
    assert_eq!(
        &*events.next().await.unwrap().unwrap(),
        (event(8) + "\n").as_bytes()
    );
    assert_eq!(lags.hidden(), 1);
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_list_at_the_beginning_of_a_late_watch_is_not_delayed() {
    let lags = Arc::new(Lags::new());
    lags.begin(Lag::Late, "pods");
    let end = event(8).replace(
        "resourceVersion",
        r#"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion"#,
    );
    let watch = watch("watch=1&sendInitialEvents=true").unwrap();
    let mut events = serve(&lags, watch, body(&[&event(7), &end, &event(9)]));
    assert!(events.next().await.is_some() && events.next().await.is_some());
    assert!(
        tokio::time::timeout(Duration::from_secs(9), events.next())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn lost_and_repeated_events_count_for_their_run_only() {
    let of = |namespace: &str, version: u32| {
        event(version).replace(
            r#""resourceVersion""#,
            &format!(r#""namespace":"{namespace}","resourceVersion""#),
        )
    };
    let told = [
        of("a", 8),
        of("b", 9),
        of("a", 10),
        of("a", 11).replace("MODIFIED", "BOOKMARK"),
    ];
    let body = || body(&told.each_ref().map(String::as_str));
    let lags = Arc::new(Lags::new());
    lags.begin_run("a");
    let known = watch("watch=1&resourceVersion=7").unwrap();
    let arrived = Arc::new(AtomicUsize::new(0));
    let arrives = {
        let arrived = Arc::clone(&arrived);
        move || {
            arrived.fetch_add(1, Ordering::Relaxed);
        }
    };
    assert_eq!(
        lags.clone()
            .events((known.clone(), arrives), body())
            .count()
            .await,
        4
    );
    assert_eq!(
        arrived.load(Ordering::Relaxed),
        2,
        "neither bookmarks nor what another run has"
    );
    assert_eq!(
        serve(&lags, known.clone(), body())
            .collect::<Vec<_>>()
            .await
            .len(),
        4
    );
    assert_eq!(lags.hidden(), 0);
    let again = Watch {
        tells_again: true,
        ..known.clone()
    };
    assert_eq!(
        serve(&lags, again, body()).collect::<Vec<_>>().await.len(),
        4
    );
    assert_eq!(lags.hidden(), 2);

    lags.begin_run("a");
    lags.begin(Lag::Missed, "pods");
    assert!(serve(&lags, known, body()).next().await.is_none());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lags.hidden(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lag_that_begins_at_an_event_hides_that_event() {
    let end = event(8).replace(
        "resourceVersion",
        r#"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion"#,
    );
    for (lag, tells) in [(Lag::Late, 3), (Lag::Missed, 2), (Lag::Repeated, 2)] {
        let lags = Arc::new(Lags::new());
        let arrives = {
            let lags = Arc::clone(&lags);
            move || lags.begin(lag, "pods")
        };
        let watch = watch("watch=1&sendInitialEvents=true").unwrap();
        let events = lags
            .clone()
            .events((watch, arrives), body(&[&event(7), &end, &event(9)]));
        let mut events = Box::pin(events.fuse());
        assert!(
            events.next().await.is_some() && events.next().await.is_some(),
            "{lag}: the list arrives"
        );
        let next = tokio::time::timeout(Duration::from_secs(9), events.next()).await;
        assert_eq!(
            next.is_err(),
            lag == Lag::Late,
            "{lag}: it waits, or the watch breaks off"
        );
        assert_eq!(lags.hidden(), usize::from(lag != Lag::Repeated), "{lag}");
        lags.end();
        assert_eq!(2 + events.count().await, tells, "{lag}");
    }
}

#[tokio::test]
async fn repeated_watch_after_lag_expires_or_repeats_once() {
    let uri: Uri = "/api/v1/pods?watch=1&resourceVersion=9".parse().unwrap();
    let again = Watch::of(&uri).unwrap();
    let lags = Arc::new(Lags::new());
    let mut events = serve(&lags, again.clone(), body(&[&event(3), &event(4)]));
    assert!(events.next().await.is_some());
    for (lag, answer) in [
        (Lag::Missed, Answer::Expired),
        (
            Lag::Repeated,
            Answer::Instead("/api/v1/pods?watch=1&resourceVersion=3".parse().unwrap()),
        ),
    ] {
        lags.begin(lag, "pods");
        assert!(
            serve(&lags, again.clone(), body(&[&event(3)]))
                .next()
                .await
                .is_none()
        );
        let early =
            tokio::time::timeout(Duration::from_millis(50), lags.answer(&again, &uri)).await;
        assert!(early.is_err(), "before the lag ends");
        lags.end();
        assert_eq!(lags.answer(&again, &uri).await, answer);
        assert_eq!(
            lags.answer(&again, &uri).await,
            Answer::Forward,
            "once only"
        );
    }
}
