use super::super::audit::Requests;
use super::*;

fn phase(subject: &str, round: usize, name: &'static str, seconds: f64) -> Phase {
    Phase {
        subject: subject.to_owned(),
        round,
        name,
        pods: 10,
        began: 0.0,
        seconds,
        cpu: 1.0,
        resident: 10240,
        peak: 11264,
        apiserver_cpu: 2.0,
        etcd_cpu: 0.5,
        simnode_cpu: 0.25,
        reconciles: 7,
        requests: Requests {
            all: [("patch pods".to_owned(), 30)].into(),
            ..Requests::default()
        },
        writes: 30,
        each: vec![1.0, 2.0],
    }
}

#[test]
fn medians_of_the_rounds_are_compared() {
    let mut phases = vec![phase("floor", 1, "in place", 2.0)];
    phases.extend([1.0, 9.0, 3.0].map(|seconds| phase("berth", 1, "in place", seconds)));
    let text = text(&Figures {
        pods: 10,
        nodes: 2,
        processors: 2,
        optimised: true,
        phases,
        lives: Vec::new(),
    });
    assert!(
        text.contains("| in place | 3.00 | 1.00 | 10.0 | 11.0 | 30 | 3.00 | 0 | 2.00 | 0.50 | 7 |"),
        "{text}"
    );
    assert!(
        text.contains("berth, in place: 1.50 × the time of the floor"),
        "{text}"
    );
    assert!(text.contains("berth, in place: 30 patch pods"), "{text}");
    assert!(
        text.contains("berth, in place: the slowest of 2 took 1.33 × the mean of 1.50 s"),
        "{text}"
    );
}
