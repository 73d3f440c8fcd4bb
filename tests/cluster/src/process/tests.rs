use super::*;

#[test]
fn start_time_is_the_22nd_field_for_any_name() {
    let rest = (4..=30)
        .map(|field| field.to_string())
        .collect::<Vec<_>>()
        .join(" ");
    assert_eq!(parse_start_time(&format!("7 (a) b) S {rest}")), Some(22));
    assert_eq!(parse_start_time(&format!("7 (a) Z {rest}")), None);
    assert_eq!(parse_start_time("7 (a) S 1"), None);
}

#[test]
fn process_differs_from_another_with_its_id() {
    let own = Process::with_pid(std::process::id()).unwrap();
    assert!(own.runs());
    let earlier = Process {
        started: own.started - 1,
        ..own
    };
    assert!(!earlier.runs());
    assert!(
        earlier.kill().is_ok(),
        "what is gone need not be killed, and we still live"
    );
}

#[test]
fn killed_child_is_gone_without_a_wait() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let process = Process::with_pid(child.id()).unwrap();
    process.kill().unwrap();
    assert!(!process.runs());
    assert!(child.wait().is_err(), "it was reaped");
}
