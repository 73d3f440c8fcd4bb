//! A client's view of a service: requests that failed, and whether the client should have sent
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

/// One request to one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The pod's name.
    pub pod: String,
    /// When it was sent, since the record began.
    pub sent: Duration,
    /// When the answer, or the failure, arrived.
    pub done: Duration,
    /// Whether the EndpointSlices in the client's watch had `ready` for this pod's IP when it sent
    /// the request.
    pub called_ready: bool,
    /// The answer's body, or the error.
    pub answer: Result<String, String>,
}

/// All requests of a run.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    sent: Vec<Request>,
    latest: BTreeMap<String, Result<String, String>>,
}

/// A client's results of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Requests.
    pub requests: usize,
    /// Of them, failed ones.
    pub failed: usize,
    /// Sum of the times without an answer: from the last answer before a failure to the first after
    /// it.
    pub silent: Duration,
    /// The distinct answers, in order.
    pub answers: Vec<String>,
}

impl Requests {
    /// Adds a request.
    pub fn push(&mut self, request: Request) {
        self.latest
            .insert(request.pod.clone(), request.answer.clone());
        self.sent.push(request);
    }

    /// A pod's answer to the last request.
    pub fn latest(&self, pod: &str) -> Option<&Result<String, String>> {
        self.latest.get(pod)
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// True without any request.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The results of each pod, by name, for requests sent at `from` or later and answered by `to`.
    pub fn by_pod(&self, from: Duration, to: Duration) -> BTreeMap<String, Seen> {
        let mut by_pod: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
        for request in self.sent.iter().filter(|r| r.sent >= from && r.done <= to) {
            by_pod.entry(&request.pod).or_default().push(request);
        }
        by_pod
            .into_iter()
            .map(|(pod, requests)| (pod.to_owned(), seen(requests)))
            .collect()
    }

    /// When a pod last answered between `from` and `to`.
    pub fn last_answer(&self, pod: &str, from: Duration, to: Duration) -> Option<Duration> {
        self.answers(pod, from, to).max()
    }

    /// When a pod first answered between `from` and `to`.
    pub fn first_answer(&self, pod: &str, from: Duration, to: Duration) -> Option<Duration> {
        self.answers(pod, from, to).min()
    }

    fn answers(&self, pod: &str, from: Duration, to: Duration) -> impl Iterator<Item = Duration> {
        let answered =
            move |r: &&Request| r.pod == pod && r.answer.is_ok() && r.sent >= from && r.done <= to;
        self.sent.iter().filter(answered).map(|r| r.done)
    }

    /// Requests that failed although the pod was marked as ready when they were sent: none if a pod
    /// is taken out of service in time.
    pub fn failed_while_ready(&self) -> Vec<&Request> {
        self.sent
            .iter()
            .filter(|r| r.called_ready && r.answer.is_err())
            .collect()
    }
}

fn seen(mut requests: Vec<&Request>) -> Seen {
    requests.sort_by_key(|r| r.sent);
    let mut seen = Seen {
        requests: requests.len(),
        ..Seen::default()
    };
    let mut last_answer = None;
    let mut failing_since = None;
    for request in requests {
        match &request.answer {
            Err(_) => {
                seen.failed += 1;
                // A pod that never answered before is silent from the first request on.
                failing_since.get_or_insert(last_answer.unwrap_or(request.sent));
            }
            Ok(answer) => {
                if let Some(since) = failing_since.take() {
                    seen.silent += request.done.saturating_sub(since);
                }
                if !seen.answers.contains(answer) {
                    seen.answers.push(answer.clone());
                }
                last_answer = Some(request.done);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests;
