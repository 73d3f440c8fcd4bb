use std::sync::atomic::Ordering;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::client::fake::SlowWrites;
use crate::election;
use crate::metrics::Metrics;
use crate::object::CLONE_SETS;

fn owner(uid: &str) -> Owner {
    Owner {
        resource: CLONE_SETS,
        namespace: "a".into(),
        name: "web".into(),
        uid: uid.into(),
    }
}

fn creates_a_pod() -> Plan {
    let body = json!({"metadata": {"namespace": "a", "name": "web-1"}});
    let action = Action::CreatePod {
        body: berth_workload::plan::Body::from(&body),
    };
    let failed = Some(berth_workload::plan::Event {
        warning: true,
        reason: "FailedCreate",
        message: "pod".into(),
    });
    let step = Step {
        actions: vec![action],
        reason: "a test".into(),
        done: None,
        failed,
    };
    Plan {
        stages: vec![Stage {
            name: "create",
            required: true,
            steps: vec![step],
        }],
        ..Plan::default()
    }
}

fn executor(client: &Client, leadership: &Leadership) -> Executor {
    executor_with(client, leadership, Settings::default())
}

fn executor_with(client: &Client, leadership: &Leadership, settings: Settings) -> Executor {
    let (recorder, sending) = Recorder::new(
        client.clone(),
        "test",
        "test-0",
        Metrics::new(|_| {}),
        CancellationToken::new(),
    );
    tokio::spawn(sending);
    let expectations = Expectations::new(Duration::from_secs(30));
    Executor::new(
        client.clone(),
        leadership.clone(),
        expectations,
        recorder,
        settings,
    )
}

/// The times of the command line.
fn elect(client: &Client) -> Leadership {
    let retry = Duration::from_millis(1500);
    let settings = election::Settings {
        retry,
        ..election::Settings::new("n", "leader", "me")
    };
    let (leadership, standing) = election::run(
        client.clone(),
        settings,
        Metrics::new(|_| {}),
        Default::default,
        CancellationToken::new(),
    );
    tokio::spawn(standing);
    leadership
}

#[tokio::test(start_paused = true)]
async fn nine_second_write_succeeds_at_second_try() {
    let server = SlowWrites::that_take(Duration::from_secs(9));
    let client = server.client();
    let leadership = elect(&client);
    leadership.acquired().await;
    let executor = executor(&client, &leadership);
    let first = executor.act(&creates_a_pod(), &owner("1")).await.failures;
    assert_eq!(first.len(), 1, "a lease of 4 s leaves no write 9 s");
    // The shortest back-off.
    tokio::time::sleep(crate::queue::Backoff::default().first).await;
    let second = executor.act(&creates_a_pod(), &owner("1")).await.failures;
    assert!(second.is_empty(), "{second:?}");
    assert!(leadership.is_leader());
}

#[tokio::test(start_paused = true)]
async fn lease_is_long_only_after_a_slow_write() {
    let server = SlowWrites::that_take(Duration::from_secs(5));
    let client = server.client();
    let leadership = elect(&client);
    leadership.acquired().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        server.lengths.lock().iter().max(),
        Some(&4),
        "no write needed more"
    );
    let executor = executor(&client, &leadership);
    executor.act(&creates_a_pod(), &owner("1")).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.lengths.lock().last(), Some(&14));
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!(server.lengths.lock().last(), Some(&4));
    assert!(leadership.is_leader());
}

#[tokio::test(start_paused = true)]
async fn hanging_writes_do_not_block_another_kind() {
    let server = SlowWrites::that_take(Duration::from_secs(9));
    let client = server.client();
    let executor = executor(&client, &Leadership::always());
    let started = Instant::now();
    let held: Vec<_> = (0..100)
        .map(|n| (creates_a_pod(), owner(&n.to_string())))
        .collect();
    let of_clonesets =
        futures::future::join_all(held.iter().map(|(plan, owner)| executor.act(plan, owner)));
    let jobs = Owner {
        resource: crate::object::IMAGE_PULL_JOBS,
        ..owner("job")
    };
    let plan = creates_a_pod();
    let of_job = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        executor.act(&plan, &jobs).await;
        started.elapsed()
    };
    let (_, job_ended) = tokio::join!(of_clonesets, of_job);
    assert_eq!(job_ended.as_secs(), 10, "it waited for writes of CloneSets");
    assert_eq!(
        started.elapsed().as_secs(),
        18,
        "64 CloneSets' writes, then 36"
    );
}

#[tokio::test(start_paused = true)]
async fn lost_lease_records_no_object_failure() {
    let server = SlowWrites::that_take(Duration::from_secs(9));
    let client = server.client();
    let (term, leadership) = Leadership::with_term();
    term.send_replace(Some(Instant::now() + Duration::from_secs(2)));
    let executor = executor(&client, &leadership);
    // Cut short by the lease's end, and not started at all.
    for _ in 0..2 {
        let failures = executor.act(&creates_a_pod(), &owner("1")).await.failures;
        assert_eq!(failures.len(), 1);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert_eq!(server.recorded(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn three_failed_renewals_keep_the_leadership() {
    for failures in [1, 3] {
        let server = SlowWrites::that_take(Duration::ZERO);
        let leadership = elect(&server.client());
        leadership.acquired().await;
        server.refused_leases.store(failures, Ordering::Relaxed);
        let lost = tokio::time::timeout(Duration::from_secs(60), leadership.lost()).await;
        assert!(lost.is_err(), "lost after {failures} failures");
        assert_eq!(
            server.refused_leases.load(Ordering::Relaxed),
            0,
            "none was asked for"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn stop_ends_running_writes_and_starts_none() {
    let server = SlowWrites::that_take(Duration::from_secs(2));
    let client = server.client();
    let stop = CancellationToken::new();
    let settings = Settings {
        parallel_per_plan: 1,
        stop: stop.clone(),
        ..Settings::default()
    };
    let executor = executor_with(&client, &Leadership::always(), settings);
    let mut plan = creates_a_pod();
    let step = plan.stages[0].steps[0].clone();
    plan.stages[0].steps.extend(vec![step; 9]);
    let (started, owner) = (Instant::now(), owner("1"));
    let (outcome, ()) = tokio::join!(executor.act(&plan, &owner), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    });
    assert_eq!(started.elapsed().as_secs(), 2, "the one under way");
    assert!(
        !outcome.failures.is_empty(),
        "what was left undone is no success"
    );
    assert_eq!(
        server.recorded(),
        Vec::<String>::new(),
        "and no failure of an object"
    );
}
