//! Answers of a moment ago, for all who ask within the moment.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// So long an answer counts, from when it was asked for.
pub(crate) const MOMENT: Duration = Duration::from_secs(1);
/// The most answers that are kept. Beyond that each who asks is answered apart.
const MOST: usize = 1024;

type Slot<T> = Arc<Mutex<Option<(Instant, T)>>>;

/// Answers of the last second, by what was asked. Those who ask at one time wait for one answer.
#[derive(Debug)]
pub(crate) struct Recent<T>(parking_lot::Mutex<HashMap<String, Slot<T>>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(parking_lot::Mutex::default())
    }
}

impl<T: Clone> Recent<T> {
    /// The answer to what `asked` names: that of the last second, or this one.
    pub(crate) async fn or(&self, asked: &str, answer: impl Future<Output = T>) -> T {
        let slot = self.slot(asked);
        let mut last = slot.lock().await;
        if let Some((_, known)) = last.as_ref().filter(|(began, _)| began.elapsed() < MOMENT) {
            return known.clone();
        }
        let began = Instant::now();
        let answer = answer.await;
        *last = Some((began, answer.clone()));
        answer
    }

    fn slot(&self, asked: &str) -> Slot<T> {
        let mut all = self.0.lock();
        if let Some(slot) = all.get(asked) {
            return slot.clone();
        }
        let slot = Slot::default();
        if all.len() >= MOST {
            // Those that are being answered stay.
            let is_of_use = |last: &Option<(Instant, T)>| {
                last.as_ref().is_some_and(|(at, _)| at.elapsed() < MOMENT)
            };
            all.retain(|_, slot| slot.try_lock().map_or(true, |last| is_of_use(&last)));
        }
        if all.len() < MOST {
            all.insert(asked.to_owned(), slot.clone());
        }
        slot
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_answer_a_second_serves_all_who_ask() {
        let (recent, asked) = (Recent::default(), AtomicUsize::new(0));
        let answer = async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            asked.fetch_add(1, Ordering::Relaxed)
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
    async fn answers_are_bounded_and_given_up_ones_asked_again() {
        let recent = Recent::default();
        let given_up =
            tokio::time::timeout(MOMENT, recent.or("0", std::future::pending::<usize>()));
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
}
