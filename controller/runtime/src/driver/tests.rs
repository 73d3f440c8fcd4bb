use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::*;
use crate::election::Taken;
use crate::expectations::Versions;
use crate::metrics::{Metrics, QueueMetrics};
use crate::queue::Backoff;

struct Rig {
    queue: Arc<Queue<u8>>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
}

fn rig() -> Rig {
    let queue = Queue::new(Backoff::default(), QueueMetrics::unread());
    Rig {
        queue,
        metrics: Metrics::new(|_| {}),
        stop: CancellationToken::new(),
    }
}

impl Rig {
    fn driver(&self, leadership: Leadership, stores: Vec<SyncState>) -> Driver<u8> {
        let metrics = self.metrics.driver("test", 2);
        let (queue, handover) = (self.queue.clone(), Handover::without_election());
        Driver {
            controller: "test",
            queue,
            workers: 2,
            leadership,
            handover,
            stores,
            metrics,
        }
    }

    /// Runs everything that can run without time passing for long.
    async fn run_for<R: Future<Output = Next> + Send>(
        &self,
        driver: Driver<u8>,
        time: Duration,
        reconcile: impl Fn(u8) -> R + Send + Sync + 'static,
    ) {
        let stop = self.stop.clone();
        let end = async {
            tokio::time::sleep(time).await;
            stop.cancel();
        };
        tokio::join!(driver.run(self.stop.clone(), reconcile), end);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_object_does_not_stop_its_neighbours() {
    let rig = rig();
    let (runs, bad) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (ran, broke) = (runs.clone(), bad.clone());
    (0..10).for_each(|key| rig.queue.add(key));
    let driver = rig.driver(Leadership::always(), Vec::new());
    rig.run_for(driver, Duration::from_secs(10), move |key| {
        let next = match key {
            3 => {
                broke.fetch_add(1, Ordering::Relaxed);
                panic!("odd object");
            }
            4 => {
                broke.fetch_add(1, Ordering::Relaxed);
                Next::Retry("refused".into())
            }
            _ => {
                ran.fetch_add(1, Ordering::Relaxed);
                Next::Done
            }
        };
        std::future::ready(next)
    })
    .await;
    assert_eq!(runs.load(Ordering::Relaxed), 8);
    // 20 ms · 2ⁿ: the tenth retry is due after 10.2 s at the latest.
    assert_eq!(bad.load(Ordering::Relaxed), 2 * 9);
    let text = rig.metrics.encode();
    assert!(
        text.contains(r#"controller_runtime_reconcile_errors_total{controller="test"} 18"#),
        "{text}"
    );
    assert!(
        text.contains(r#"controller_runtime_reconcile_panics_total{controller="test"} 9"#),
        "{text}"
    );
    assert!(
        text.contains(
            r#"controller_runtime_reconcile_total{controller="test",result="success"} 8"#
        ),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn reconcile_again_later_is_no_failure() {
    let rig = rig();
    let times = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    rig.queue.add(1);
    let driver = rig.driver(Leadership::always(), Vec::new());
    let seen = times.clone();
    rig.run_for(driver, Duration::from_secs(16), move |_| {
        seen.lock().push(start.elapsed().as_secs());
        std::future::ready(Next::After(Duration::from_secs(5)))
    })
    .await;
    assert_eq!(*times.lock(), [0, 5, 10, 15]);
}

#[tokio::test(start_paused = true)]
async fn changed_object_is_retried_ever_more_slowly() {
    let rig = rig();
    let times = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    rig.queue.add(1);
    let driver = rig.driver(Leadership::always(), Vec::new());
    let seen = times.clone();
    rig.run_for(driver, Duration::from_secs(60), move |_| {
        let mut times = seen.lock();
        times.push(start.elapsed());
        let next = if times.len() < 6 {
            Next::Again("PatchPod web-1: changed".to_owned())
        } else {
            Next::Done
        };
        std::future::ready(next)
    })
    .await;
    let times = times.lock();
    let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() == 5 && waits[4] > 2 * waits[0], "{waits:?}");
    let text = rig.metrics.encode();
    assert!(
        text.contains(
            r#"controller_runtime_reconcile_total{controller="test",result="requeue"} 5"#
        ),
        "{text}"
    );
    assert!(
        text.contains(r#"controller_runtime_reconcile_errors_total{controller="test"} 0"#),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn driver_waits_until_the_stores_are_complete() {
    let rig = rig();
    let (synced, state) = watch::channel(false);
    let start = Instant::now();
    rig.queue.add(1);
    let driver = rig.driver(Leadership::always(), vec![state]);
    let sync = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        synced.send_replace(true);
    };
    let run = rig.run_for(driver, Duration::from_secs(5), move |_| {
        assert!(start.elapsed().as_secs() >= 3);
        std::future::ready(Next::Done)
    });
    tokio::join!(run, sync);
    assert!(rig.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn driver_works_only_while_it_leads() {
    let rig = rig();
    let start = Instant::now();
    let (term, leadership) = Leadership::with_term();
    let ran = Arc::new(Mutex::new(Vec::new()));
    let driver = rig.driver(leadership, Vec::new());
    rig.queue.add(1);
    let story = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        // Leads from the second to the fourth second, unrenewed.
        term.send_replace(Some(Instant::now() + Duration::from_secs(2)));
        tokio::time::sleep(Duration::from_secs(3)).await;
        rig.queue.add(2);
        tokio::time::sleep(Duration::from_secs(2)).await;
        term.send_replace(Some(Instant::now() + Duration::from_secs(2)));
    };
    let runs = ran.clone();
    let run = rig.run_for(driver, Duration::from_secs(10), move |key| {
        runs.lock().push((key, start.elapsed().as_secs()));
        std::future::ready(Next::Done)
    });
    tokio::join!(run, story);
    assert_eq!(*ran.lock(), [(1, 2), (2, 7)]);
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_a_reconcile_end() {
    let rig = rig();
    let ended = Arc::new(AtomicU32::new(0));
    rig.queue.add(1);
    let driver = rig.driver(Leadership::always(), Vec::new());
    let ends = ended.clone();
    rig.run_for(driver, Duration::from_secs(1), move |_| {
        let ends = ends.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            ends.fetch_add(1, Ordering::Relaxed);
            Next::Done
        }
    })
    .await;
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}

fn lease(version: &str) -> Taken {
    Taken {
        version: version.into(),
        seen: Versions::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn driver_waits_for_writes_of_previous_leader() {
    let rig = rig();
    let start = Instant::now();
    let (term, leadership) = Leadership::with_term();
    let (taken, of_lease) = watch::channel(Some(lease("7")));
    let (seen, handover) = Handover::by_hand(of_lease);
    let ran = Arc::new(Mutex::new(Vec::new()));
    let driver = Driver {
        handover,
        ..rig.driver(leadership, Vec::new())
    };
    rig.queue.add(1);
    let story = async {
        term.send_replace(Some(Instant::now() + Duration::from_secs(3600)));
        tokio::time::sleep(Duration::from_secs(2)).await;
        seen.send_replace(Some("7".into()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Lost, and taken again: another may have written meanwhile.
        taken.send_replace(Some(lease("9")));
        rig.queue.add(2);
        tokio::time::sleep(Duration::from_secs(1)).await;
        seen.send_replace(Some("9".into()));
    };
    let runs = ran.clone();
    let run = rig.run_for(driver, Duration::from_secs(10), move |key| {
        runs.lock().push((key, start.elapsed().as_secs()));
        std::future::ready(Next::Done)
    });
    tokio::join!(run, story);
    assert_eq!(*ran.lock(), [(1, 2), (2, 4)]);
}

#[tokio::test(start_paused = true)]
async fn reconcile_cut_short_by_lost_lease_is_no_failure() {
    let rig = rig();
    let (term, leadership) = Leadership::with_term();
    term.send_replace(Some(Instant::now() + Duration::from_secs(1)));
    let driver = rig.driver(leadership, Vec::new());
    rig.queue.add(1);
    rig.run_for(driver, Duration::from_secs(5), |_| async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        Next::Retry("not started: another process may lead now".into())
    })
    .await;
    let text = rig.metrics.encode();
    assert!(
        text.contains(r#"controller_runtime_reconcile_errors_total{controller="test"} 0"#),
        "{text}"
    );
}
