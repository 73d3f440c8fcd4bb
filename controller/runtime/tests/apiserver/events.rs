use berth_runtime::CancellationToken;
use berth_runtime::events::Recorder;
use berth_runtime::metrics::Metrics;
use berth_runtime::object::EVENTS;
use berth_workload::plan::Event;
use http::Method;
use serde_json::{Value, json};

use crate::executor::owner;
use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn equal_events_are_one_object_with_a_count() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let stop = CancellationToken::new();
    let (recorder, sender) = Recorder::new(
        client.clone(),
        "berth",
        "berth-0",
        Metrics::new(|_| {}),
        stop.clone(),
    );
    let sender = tokio::spawn(sender);
    let owner = owner(&namespace, &uid());
    let event = |message: &str| Event {
        warning: true,
        reason: "FailedCreate",
        message: message.into(),
    };
    for _ in 0..3 {
        recorder.record(&owner, &event("no more pods"));
    }
    recorder.record(&owner, &event(&"long ".repeat(1000)));
    // What waits is still sent at the end.
    stop.cancel();
    sender.await.unwrap();
    let list = request(
        &client,
        Method::GET,
        &EVENTS.collection(&namespace).unwrap(),
        &Value::Null,
    )
    .await
    .unwrap();
    let mut events: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["source"]["component"] == "berth")
        .collect();
    events.sort_by_key(|event| event["count"].as_i64());
    assert_eq!(
        events
            .iter()
            .map(|event| &event["count"])
            .collect::<Vec<_>>(),
        [&json!(1), &json!(3)]
    );
    assert_eq!(
        (&events[1]["message"], &events[1]["type"]),
        (&json!("no more pods"), &json!("Warning"))
    );
    assert_eq!(events[1]["involvedObject"]["uid"], owner.uid);

    // A deleted event is made anew, with its count.
    let path = EVENTS
        .path(&namespace, events[1]["metadata"]["name"].as_str().unwrap())
        .unwrap();
    let stop = CancellationToken::new();
    let (recorder, sender) = Recorder::new(
        client.clone(),
        "again",
        "berth-0",
        Metrics::new(|_| {}),
        stop.clone(),
    );
    let sender = tokio::spawn(sender);
    request(&client, Method::DELETE, &path, &Value::Null)
        .await
        .unwrap();
    recorder.record(&owner, &event("no more pods"));
    drop(recorder);
    sender.await.unwrap();
    let list = request(
        &client,
        Method::GET,
        &EVENTS.collection(&namespace).unwrap(),
        &Value::Null,
    )
    .await
    .unwrap();
    assert!(
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e["source"]["component"] == "again" && e["count"] == 1)
    );
}
