use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[tokio::test(start_paused = true)]
async fn concurrent_reads_share_one_answer_a_second() {
    let (recent, answered) = (Recent::default(), AtomicUsize::new(0));
    let answer = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        answered.fetch_add(1, Ordering::Relaxed)
    };
    let (mut seen, began) = (Vec::new(), Instant::now());
    while began.elapsed() < Duration::from_millis(2_500) {
        let (one, other) = tokio::join!(recent.or("a", answer()), recent.or("a", answer()));
        assert_eq!(one, other);
        seen.push(one);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen.dedup();
    assert_eq!(seen, [0, 1, 2]);
    assert_eq!(recent.or("b", answer()).await, 3, "another question");
}

#[tokio::test(start_paused = true)]
async fn recent_retries_abandoned_answers_and_is_bounded() {
    let recent = Recent::default();
    let given_up = tokio::time::timeout(MOMENT, recent.or("0", std::future::pending::<usize>()));
    assert!(given_up.await.is_err());
    assert_eq!(recent.or("0", std::future::ready(7)).await, 7);
    for number in 0..MOST + 10 {
        recent
            .or(&number.to_string(), std::future::ready(number))
            .await;
    }
    assert_eq!(recent.0.lock().len(), MOST);
    tokio::time::advance(MOMENT).await;
    assert_eq!(recent.or("late", std::future::ready(1)).await, 1);
    assert_eq!(recent.0.lock().len(), 1);
}
