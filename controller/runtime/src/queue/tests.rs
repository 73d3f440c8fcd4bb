use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt;
use proptest::prelude::*;

use super::*;

/// Ten keys of each namespace.
impl QueueKey for u8 {
    fn namespace(&self) -> &str {
        ["a", "b", "c", "d"]
            .get(usize::from(self / 10))
            .copied()
            .unwrap_or_default()
    }
}

fn queue() -> Arc<Queue<u8>> {
    Queue::new(Backoff::default(), QueueMetrics::unread())
}

/// What can be taken without waiting.
fn ready(queue: &Arc<Queue<u8>>) -> Option<Work<u8>> {
    queue.take().now_or_never().flatten()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn a_key_is_in_it_once_and_first_in_is_first_out() {
    let queue = queue();
    [1, 2, 1, 3, 2].into_iter().for_each(|key| queue.add(key));
    assert_eq!(queue.len(), 3);
    let order: Vec<_> = std::iter::from_fn(|| ready(&queue).map(|work| work.key)).collect();
    assert_eq!(order, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns_and_keys_stay_in_order() {
    let queue = queue();
    [1, 2, 3, 4, 11, 5, 21, 12]
        .into_iter()
        .for_each(|key| queue.add(key));
    let order: Vec<_> = std::iter::from_fn(|| ready(&queue).map(|work| work.key)).collect();
    assert_eq!(order, [1, 11, 21, 2, 12, 3, 4, 5]);
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_runs_comes_again_after_that() {
    let queue = queue();
    queue.add(1);
    let work = ready(&queue).unwrap();
    queue.add(1);
    queue.add(1);
    assert!(ready(&queue).is_none());
    drop(work);
    drop(ready(&queue).unwrap());
    assert!(ready(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn delay_beyond_the_clock_is_one_day() {
    let queue = queue();
    for wait in [
        Duration::MAX,
        Duration::from_secs(u64::MAX),
        seconds(i64::MAX.unsigned_abs()),
    ] {
        queue.add_after(1, wait);
        let began = Instant::now();
        assert_eq!(queue.take().await.map(|work| work.key), Some(1));
        assert_eq!(began.elapsed(), LONGEST, "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn busy_key_does_not_starve_others() {
    let queue = queue();
    queue.add(1);
    queue.add(2);
    let first = ready(&queue).unwrap();
    queue.add(1);
    drop(first);
    assert_eq!(ready(&queue).unwrap().key, 2);
}

#[tokio::test(start_paused = true)]
async fn of_several_delays_the_earliest_counts() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after(1, seconds(60));
    queue.add_after(1, seconds(10));
    queue.add_after(1, seconds(30));
    queue.add_after(2, seconds(20));
    assert_eq!(queue.take().await.unwrap().key, 1);
    assert_eq!(start.elapsed().as_secs(), 10);
    assert_eq!(queue.take().await.unwrap().key, 2);
    assert_eq!(start.elapsed().as_secs(), 20);
    tokio::time::advance(seconds(100)).await;
    assert!(ready(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn taking_a_key_clears_its_delay() {
    let queue = queue();
    queue.add_after(1, seconds(10));
    queue.add(1);
    drop(ready(&queue).unwrap());
    tokio::time::advance(seconds(11)).await;
    assert!(ready(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_is_woken_for_something_earlier() {
    let queue = queue();
    queue.add_after(1, seconds(100));
    let taken = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.unwrap().key }
    });
    tokio::task::yield_now().await;
    let start = Instant::now();
    queue.add_after(2, seconds(1));
    assert_eq!(taken.await.unwrap(), 2);
    assert_eq!(start.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn back_off_doubles_until_forgotten() {
    let queue = queue();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let wait = queue.retry(1);
        waits.push(wait.as_millis());
        if waits.len() < 4 {
            tokio::time::advance(wait).await;
        }
    }
    assert_eq!(waits, [20, 40, 80, 160]);
    assert_eq!(queue.retry(2).as_millis(), 20);
    let taken = [queue.take().await.unwrap(), queue.take().await.unwrap()];
    let failures: BTreeMap<_, _> = taken.iter().map(|work| (work.key, work.failures)).collect();
    assert_eq!(failures, BTreeMap::from([(1, 4), (2, 1)]));
    drop(taken);
    queue.forget(&1);
    assert_eq!(queue.retry(1).as_millis(), 20);
}

/// A pod that changes every few milliseconds triggers its owner while the server is down.
#[tokio::test(start_paused = true)]
async fn events_do_not_extend_the_back_off() {
    let queue = queue();
    assert_eq!(queue.retry(1).as_millis(), 20);
    for left in [15, 10, 5] {
        tokio::time::advance(Duration::from_millis(5)).await;
        queue.add(1);
        let work = ready(&queue).unwrap();
        assert_eq!((work.failures, queue.retry(1).as_millis()), (1, left));
    }
    let woken = Instant::now();
    drop(queue.take().await.unwrap());
    assert_eq!(
        (woken.elapsed().as_millis(), queue.retry(1).as_millis()),
        (5, 40)
    );
}

#[test]
fn back_off_has_a_limit() {
    let backoff = Backoff::default();
    assert_eq!(backoff.after(0), backoff.first);
    assert_eq!(backoff.after(1), backoff.first);
    for failures in [14, 32, 33, u32::MAX] {
        assert_eq!(backoff.after(failures), backoff.most, "{failures}");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_ends_all_workers() {
    let queue = queue();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.take().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.close();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
    queue.add(1);
    assert!(queue.take().await.is_none());
}

#[derive(Debug, Clone)]
enum Op {
    Add(u8),
    AddAfter(u8, u8),
    Retry(u8),
    Take,
    Finish(usize),
    Pass(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..4u8).prop_map(Op::Add),
        2 => (0..4u8, 0..5u8).prop_map(|(key, wait)| Op::AddAfter(key, wait)),
        1 => (0..4u8).prop_map(Op::Retry),
        4 => Just(Op::Take),
        3 => (0..4usize).prop_map(Op::Finish),
        2 => (0..5u8).prop_map(Op::Pass),
    ]
}

proptest! {
    /// No key runs twice at once, and every request for a key is followed by a run that starts
    /// after it.
    #[test]
    fn every_added_key_is_taken(ops in prop::collection::vec(op(), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = queue();
            let mut running: BTreeMap<u8, Work<u8>> = BTreeMap::new();
            let mut wished: BTreeSet<u8> = BTreeSet::new();
            let take = |running: &mut BTreeMap<u8, Work<u8>>, wished: &mut BTreeSet<u8>| {
                let Some(work) = ready(&queue) else { return false };
                assert!(!running.contains_key(&work.key), "two workers on {}", work.key);
                assert!(wished.remove(&work.key), "{} was not requested", work.key);
                running.insert(work.key, work);
                true
            };
            for op in ops {
                match op {
                    Op::Add(key) => {
                        queue.add(key);
                        wished.insert(key);
                    }
                    Op::AddAfter(key, wait) => {
                        queue.add_after(key, seconds(wait.into()));
                        wished.insert(key);
                    }
                    Op::Retry(key) => {
                        queue.retry(key);
                        wished.insert(key);
                    }
                    Op::Take => {
                        take(&mut running, &mut wished);
                    }
                    Op::Finish(nth) => {
                        if let Some(key) = running.keys().nth(nth).copied() {
                            running.remove(&key);
                        }
                    }
                    Op::Pass(wait) => tokio::time::advance(seconds(wait.into())).await,
                }
            }
            running.clear();
            tokio::time::advance(seconds(3600)).await;
            while take(&mut running, &mut wished) {}
            assert!(wished.is_empty(), "never ran: {wished:?}");
        });
    }
}
