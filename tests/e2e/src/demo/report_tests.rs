use super::*;
use crate::outage::Request;
use crate::record::tests::pod;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn ask(pod: &str, sent: u64, answer: Result<&str, &str>) -> Request {
    Request {
        pod: format!("pod-{pod}"),
        sent: ms(sent),
        done: ms(sent + 10),
        called_ready: true,
        answer: answer.map(Into::into).map_err(Into::into),
    }
}

fn requests(list: impl IntoIterator<Item = Request>) -> Requests {
    let mut requests = Requests::default();
    list.into_iter().for_each(|request| requests.push(request));
    requests
}

#[test]
fn a_pod_updated_in_place_keeps_all_and_is_out_for_a_while() {
    let mut record = Record::starting_with([pod("a", "old", true)]);
    record.push(ms(1000), Change::Is(pod("a", "old", false)));
    record.push(ms(2500), Change::Is(pod("a", "new", true)));
    let asked = requests([
        ask("a", 900, Ok("v1")),
        ask("a", 1200, Ok("v1")),
        ask("a", 1400, Err("refused")),
        ask("a", 1990, Ok("v2")),
        ask("a", 2900, Ok("v2")),
    ]);
    let verified = Verified::Same {
        id: "aa".into(),
        by: "pod".into(),
    };
    let evidence = Evidence {
        record: &record,
        asked: &asked,
        from: ms(950),
        to: ms(3000),
        verified: [("a".to_owned(), verified.clone())].into(),
    };
    let outcomes = evidence.outcomes();
    assert_eq!(outcomes.len(), 1);
    assert!(outcomes[0].in_place());
    assert_eq!(
        (outcomes[0].silent, outcomes[0].out_of_service),
        (ms(790), ms(1500))
    );
    assert_eq!(
        (&outcomes[0].answers, &outcomes[0].verified),
        (&vec!["v1".to_owned(), "v2".into()], &verified)
    );
    let table = table(&outcomes);
    let line = table.lines().nth(1).unwrap();
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>().join(" "),
        "pod-a v1 → v2 same same same 0 0.79 s 1.50 s aa = node's, exact by pod"
    );
}

#[test]
fn pods_that_went_are_paired_with_those_that_came() {
    let gone = |uid: &str| PodView {
        terminating: true,
        ..pod(uid, "old", true)
    };
    let elsewhere = |uid: &str, serves| PodView {
        node: "node-2".into(),
        ip: "10.0.0.9".into(),
        ..pod(uid, "new", serves)
    };
    let mut record = Record::starting_with([pod("a", "old", true), pod("b", "old", true)]);
    record.push(ms(100), Change::Is(gone("b")));
    record.push(ms(200), Change::Is(elsewhere("d", false)));
    record.push(ms(300), Change::Is(gone("a")));
    record.push(ms(350), Change::Gone("b".into()));
    record.push(ms(400), Change::Is(elsewhere("c", false)));
    record.push(ms(900), Change::Is(elsewhere("d", true)));
    record.push(ms(1300), Change::Is(elsewhere("c", true)));
    record.push(ms(1400), Change::Gone("a".into()));
    let asked = requests([
        ask("b", 90, Ok("v1")),
        ask("b", 200, Err("x")),
        ask("d", 500, Err("x")),
        ask("d", 600, Ok("v2")),
    ]);
    let evidence = Evidence {
        record: &record,
        asked: &asked,
        from: ms(50),
        to: ms(1500),
        verified: BTreeMap::new(),
    };
    let outcomes = evidence.outcomes();
    let pairs: Vec<_> = outcomes
        .iter()
        .map(|f| {
            (
                f.before.as_ref().unwrap().uid.as_str(),
                f.after.as_ref().unwrap().uid.as_str(),
                f.out_of_service,
            )
        })
        .collect();
    assert_eq!(pairs, [("b", "d", ms(800)), ("a", "c", ms(1000))]);
    assert_eq!(outcomes[0].silent, ms(510));
    assert_eq!(outcomes[0].answers, ["v1", "v2"]);
    assert!(!outcomes[0].in_place());
}

#[test]
fn a_summary_has_the_longest_and_the_mean() {
    let outcome = |silent, out| PodOutcome {
        before: Some(pod("a", "old", true)),
        after: Some(pod("a", "new", true)),
        restarts: 1,
        answers: vec![],
        silent: ms(silent),
        out_of_service: ms(out),
        verified: Verified::Unknown,
    };
    let moved = PodOutcome {
        after: Some(pod("b", "new", true)),
        ..outcome(300, 900)
    };
    let summary = Summary::of(ms(3000), &[outcome(100, 500), moved]);
    assert_eq!((summary.in_place, summary.pods), (1, 2));
    assert_eq!(
        (summary.silent, summary.out_of_service),
        ((ms(300), ms(200)), (ms(900), ms(700)))
    );
    let text = side_by_side(
        &summary,
        &Summary {
            in_place: 0,
            ..summary.clone()
        },
    );
    assert!(text.contains("1 of 2"), "{text}");
    assert!(text.contains("0.70 s (at most 0.90 s)"), "{text}");
}

#[test]
fn columns_are_aligned_by_characters() {
    let rows = [
        ["a → b".to_owned(), "x".into()],
        ["abc".to_owned(), "y".into()],
    ];
    assert_eq!(aligned(&rows), "a → b  x\nabc    y\n");
}
