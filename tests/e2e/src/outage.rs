//! What a client of a service saw: requests that failed, and whether it should have sent them.

use std::collections::BTreeMap;
use std::time::Duration;

/// One request to one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The pod's name.
    pub pod: String,
    /// When it was sent, since the record began.
    pub sent: Duration,
    /// When the answer, or the failure, was there.
    pub done: Duration,
    /// Whether the client's last look at the EndpointSlices said `ready` for this pod's IP when it sent the request.
    pub called_ready: bool,
    /// The answer's body, or what went wrong.
    pub answer: Result<String, String>,
}

/// All requests of a run.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    sent: Vec<Request>,
    latest: BTreeMap<String, Result<String, String>>,
}

/// What a client saw of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Requests.
    pub requests: usize,
    /// Of them, failed ones.
    pub failed: usize,
    /// Sum of the times without an answer: from the last answer before a failure to the first after it.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// True before the first.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// What was seen of each pod, by name, by requests sent at `from` or later and answered by `to`.
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

    /// Requests that failed although the pod was called ready when they were sent: none, when a pod is taken out of service in time.
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
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ask(pod: &str, sent: u64, done: u64, answer: Result<&str, &str>) -> Request {
        Request {
            pod: pod.into(),
            sent: ms(sent),
            done: ms(done),
            called_ready: true,
            answer: answer.map(Into::into).map_err(Into::into),
        }
    }

    fn all(requests: impl IntoIterator<Item = Request>) -> Requests {
        let mut all = Requests::default();
        requests.into_iter().for_each(|request| all.push(request));
        all
    }

    #[test]
    fn silence_lasts_from_the_last_answer_to_the_next() {
        let requests = all([
            ask("a", 0, 5, Ok("v1")),
            ask("a", 20, 25, Err("refused")),
            ask("b", 20, 25, Ok("v1")),
            ask("a", 40, 340, Err("timeout")),
            ask("a", 400, 410, Ok("v2")),
            ask("a", 420, 425, Ok("v2")),
            ask("a", 440, 445, Err("refused")),
            ask("a", 460, 465, Ok("v2")),
        ]);
        let seen = requests.by_pod(ms(0), ms(1000));
        let expected = Seen {
            requests: 7,
            failed: 3,
            silent: ms(405 + 40),
            answers: vec!["v1".into(), "v2".into()],
        };
        assert_eq!(seen["a"], expected);
        assert_eq!(
            seen["b"],
            Seen {
                requests: 1,
                answers: vec!["v1".into()],
                ..Seen::default()
            }
        );
    }

    #[test]
    fn a_new_pod_is_silent_from_the_first_request_on_and_an_ended_one_until_it_ends() {
        let requests = all([
            ask("new", 10, 20, Err("refused")),
            ask("new", 50, 60, Ok("v2")),
            ask("old", 10, 20, Ok("v1")),
            ask("old", 30, 40, Err("refused")),
        ]);
        let seen = requests.by_pod(ms(0), ms(1000));
        assert_eq!((seen["new"].silent, seen["old"].silent), (ms(50), ms(0)));
        assert_eq!((seen["new"].failed, seen["old"].failed), (1, 1));
    }

    #[test]
    fn first_and_last_answers() {
        let requests = all([
            ask("a", 0, 5, Ok("1")),
            ask("a", 10, 15, Ok("1")),
            ask("a", 20, 25, Err("x")),
        ]);
        assert_eq!(requests.last_answer("a", ms(0), ms(99)), Some(ms(15)));
        assert_eq!(requests.first_answer("a", ms(1), ms(99)), Some(ms(15)));
        assert_eq!(requests.first_answer("b", ms(0), ms(99)), None);
    }

    #[test]
    fn only_the_asked_time_counts() {
        let requests = all([
            ask("a", 0, 5, Err("x")),
            ask("a", 10, 15, Ok("v1")),
            ask("a", 90, 120, Err("x")),
        ]);
        let seen = requests.by_pod(ms(10), ms(100));
        assert_eq!(
            seen["a"],
            Seen {
                requests: 1,
                answers: vec!["v1".into()],
                ..Seen::default()
            }
        );
    }

    #[test]
    fn a_failure_counts_against_the_service_only_if_the_pod_was_called_ready() {
        let warned = Request {
            called_ready: false,
            ..ask("a", 30, 35, Err("refused"))
        };
        let requests = all([
            ask("a", 0, 5, Ok("v1")),
            warned,
            ask("b", 40, 45, Err("refused")),
        ]);
        let failed: Vec<_> = requests
            .failed_while_ready()
            .iter()
            .map(|r| r.pod.as_str())
            .collect();
        assert_eq!(failed, ["b"]);
    }
}
