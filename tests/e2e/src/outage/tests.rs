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
fn silence_of_a_new_pod_starts_at_its_first_request() {
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
fn requests_outside_the_window_do_not_count() {
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
fn only_failures_of_ready_pods_count() {
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
