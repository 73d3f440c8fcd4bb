use super::*;

#[test]
fn a_wait_is_a_time_of_a_day_at_most() {
    let seconds = |text: &str| wait_after_node(text).map(|time| time.as_secs());
    assert_eq!(
        [seconds("30s"), seconds("0s"), seconds("24h")],
        [Ok(30), Ok(0), Ok(86_400)]
    );
    for bad in ["", "30", "-1s", "24h1s", "soon", "999999999999999999999h"] {
        assert!(wait_after_node(bad).is_err(), "{bad}");
    }
}
