//! Recent answers, shared by all callers of the same second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long an answer counts, from the time of its request.
pub(crate) const MOMENT: Duration = Duration::from_secs(1);
/// The most answers that are kept. Beyond that each caller gets an answer of its own.
const MOST: usize = 1024;

type Slot<T> = Arc<Mutex<Option<(Instant, T)>>>;

/// Answers of the last second, by question. Concurrent callers wait for one answer.
#[derive(Debug)]
pub(crate) struct Recent<T>(parking_lot::Mutex<HashMap<String, Slot<T>>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(parking_lot::Mutex::default())
    }
}

impl<T: Clone> Recent<T> {
    /// The answer to the question `key`: that of the last second, or this one.
    pub(crate) async fn or(&self, key: &str, answer: impl Future<Output = T>) -> T {
        let slot = self.slot(key);
        let mut last = slot.lock().await;
        if let Some((_, known)) = last.as_ref().filter(|(began, _)| began.elapsed() < MOMENT) {
            return known.clone();
        }
        let began = Instant::now();
        let answer = answer.await;
        *last = Some((began, answer.clone()));
        answer
    }

    fn slot(&self, key: &str) -> Slot<T> {
        let mut all = self.0.lock();
        if let Some(slot) = all.get(key) {
            return slot.clone();
        }
        let slot = Slot::default();
        if all.len() >= MOST {
            // Questions that are being answered stay.
            let is_of_use = |last: &Option<(Instant, T)>| {
                last.as_ref().is_some_and(|(at, _)| at.elapsed() < MOMENT)
            };
            all.retain(|_, slot| slot.try_lock().map_or(true, |last| is_of_use(&last)));
        }
        if all.len() < MOST {
            all.insert(key.to_owned(), slot.clone());
        }
        slot
    }
}

#[cfg(test)]
mod tests;
