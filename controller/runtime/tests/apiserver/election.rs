use std::time::Duration;

use berth_runtime::election::{self, Leadership, Settings};
use berth_runtime::expectations::Expectations;
use berth_runtime::metrics::Metrics;
use berth_runtime::object::LEASES;
use berth_runtime::{CancellationToken, client};
use berth_workload::plan::{Action, Body};
use http::Method;
use kube::Client;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::executor::{executor_with, owner, plan};
use crate::relay::{Relay, Wire};
use crate::support::*;

struct Candidate {
    leadership: Leadership,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

/// Starts a candidate with short times, so that the tests are short.
fn stand(client: &Client, namespace: &str, identity: &str) -> Candidate {
    let settings = Settings {
        lease: Duration::from_secs(9),
        renew: Duration::from_secs(7),
        retry: Duration::from_millis(500),
        ..Settings::new(namespace, "leader", identity)
    };
    let stop = CancellationToken::new();
    let (leadership, run) = election::run(
        client.clone(),
        settings,
        Metrics::new(|_| {}),
        Default::default,
        stop.clone(),
    );
    Candidate {
        leadership,
        task: tokio::spawn(run),
        stop,
    }
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("never happened: {what}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn next_leader_takes_over_after_the_lease_expires() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let first = stand(&client, &namespace, "first");
    soon("first leads", first.leadership.acquired()).await;
    let second = stand(&client, &namespace, "second");
    // Long enough for several renewals: the second must not get in between.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(first.leadership.is_leader() && !second.leadership.is_leader());
    }
    first.task.abort();
    let _ = first.task.await;
    let end = first.leadership.deadline().unwrap();
    soon("second leads", second.leadership.acquired()).await;
    assert!(
        Instant::now() > end,
        "the second led before the first's time was over"
    );
    assert!(!first.leadership.is_leader());
    let lease = read(&client, &LEASES, &namespace, "leader").await.unwrap();
    assert_eq!(
        (
            &lease["spec"]["holderIdentity"],
            &lease["spec"]["leaseTransitions"]
        ),
        (&json!("second"), &json!(1))
    );
    soon("first has lost", first.leadership.lost()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_stops_gives_the_lease_back() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let first = stand(&client, &namespace, "first");
    soon("first leads", first.leadership.acquired()).await;
    first.stop.cancel();
    soon("first ends", first.task).await.unwrap();
    assert!(!first.leadership.is_leader());
    let lease = read(&client, &LEASES, &namespace, "leader").await.unwrap();
    assert!(lease["spec"]["holderIdentity"].is_null(), "{lease}");
    let second = stand(&client, &namespace, "second");
    soon("second leads", second.leadership.acquired()).await;
    // The Go client reads what is written here.
    let lease = read(&client, &LEASES, &namespace, "leader").await.unwrap();
    for field in ["acquireTime", "renewTime"] {
        let time = lease["spec"][field].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_given_back_is_taken_at_once() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let first = stand(&client, &namespace, "first");
    soon("first leads", first.leadership.acquired()).await;
    // It would look by itself only when the test has long ended.
    let settings = Settings {
        lease: Duration::from_secs(7200),
        renew: Duration::from_secs(3600),
        retry: Duration::from_secs(3600),
        ..Settings::new(&namespace, "leader", "second")
    };
    let stop = CancellationToken::new();
    let (leadership, run) = election::run(
        client.clone(),
        settings,
        Metrics::new(|_| {}),
        Default::default,
        stop.clone(),
    );
    let second = tokio::spawn(run);
    // A candidate that has not seen renewals takes the lease after its time. The second candidate
    // sees several.
    tokio::time::sleep(Duration::from_secs(12)).await;
    assert!(first.leadership.is_leader() && !leadership.is_leader());
    first.stop.cancel();
    soon("second leads", leadership.acquired()).await;
    stop.cancel();
    soon("second ends", second).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_leader_stops_before_another_leads() {
    let cluster = cluster();
    let direct = connect(&cluster).await;
    let namespace = namespace(&direct).await;
    let mut config = config(&cluster.kubeconfig()).await;
    let relay = Relay::before(&mut config).await;
    let behind = client::connect(config, Metrics::new(|_| {})).unwrap();
    let first = stand(&behind, &namespace, "first");
    soon("first leads", first.leadership.acquired()).await;
    let second = stand(&direct, &namespace, "second");
    // Frozen: requests neither fail nor succeed, the worst case.
    relay.set(Wire::Frozen);
    let (lost, led) = tokio::join!(
        async {
            soon("first has lost", first.leadership.lost()).await;
            Instant::now()
        },
        async {
            soon("second leads", second.leadership.acquired()).await;
            Instant::now()
        }
    );
    assert!(lost < led, "both led");
    // New connections work again: it comes back as a candidate, and waits.
    relay.set(Wire::Open);
    second.task.abort();
    soon("first leads again", first.leadership.acquired()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_taken_by_force_ends_leadership() {
    let cluster = cluster();
    let client = connect(&cluster).await;
    let namespace = namespace(&client).await;
    let first = stand(&client, &namespace, "first");
    soon("first leads", first.leadership.acquired()).await;
    let patch = json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3600}});
    request(
        &client,
        Method::PATCH,
        &LEASES.path(&namespace, "leader").unwrap(),
        &patch,
    )
    .await
    .unwrap();
    soon("first has lost", first.leadership.lost()).await;
    assert!(!first.leadership.is_leader());
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_start_and_end_within_leadership() {
    let cluster = cluster();
    let direct = connect(&cluster).await;
    let namespace = namespace(&direct).await;
    let owner = owner(&namespace, &uid());
    let create = |name: &str| {
        plan([Action::CreatePod {
            body: Body::from(&pod_body(&namespace, name, &owner.uid)),
        }])
    };
    let mut config = config(&cluster.kubeconfig()).await;
    let relay = Relay::before(&mut config).await;
    let metrics = Metrics::new(|_| {});
    let behind = client::connect(config, metrics.clone()).unwrap();
    let candidate = stand(&direct, &namespace, "first");
    soon("leads", candidate.leadership.acquired()).await;
    candidate.task.abort();
    let _ = candidate.task.await;
    let end = candidate.leadership.deadline().unwrap();
    // A minute for a write, so that it is the term that ends it.
    let executor = executor_with(
        Duration::from_secs(60),
        &behind,
        candidate.leadership.clone(),
        Expectations::new(Duration::from_secs(30)),
    );
    client::get::<serde_json::Value>(&behind, "/version")
        .await
        .unwrap();
    relay.set(Wire::Mute);
    let failures = executor.act(&create("a"), &owner).await.failures;
    assert_eq!(failures[0].code, 0);
    // It ended with its term and not with the minute of a write.
    assert!(Instant::now() < end + Duration::from_secs(30));
    relay.set(Wire::Open);
    let before = metrics
        .encode()
        .lines()
        .filter(|line| line.contains("method=\"POST\""))
        .collect::<String>();
    let failures = executor.act(&create("b"), &owner).await.failures;
    assert!(
        failures[0].message.contains("another process may lead"),
        "{failures:?}"
    );
    let after = metrics
        .encode()
        .lines()
        .filter(|line| line.contains("method=\"POST\""))
        .collect::<String>();
    assert_eq!(before, after, "nothing was sent");
}
