use super::*;

#[test]
fn flags_are_read_as_manifests_write_them() {
    let cli = Cli::try_parse_from([
        "berth-controller",
        "--leader-elect=false",
        "--lease-duration=15s",
        "--metrics-bind-address=:0",
        "--log-format=text",
    ])
    .unwrap();
    assert!(!cli.run.leader_elect);
    assert_eq!(cli.run.lease_duration, Duration::from_secs(15));
    for (text, seconds) in [("8760h", 31_536_000), ("1m30s", 90), ("7", 7)] {
        assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    assert_eq!(cli.run.metrics_bind_address.to_string(), "[::]:0");
    assert_eq!(cli.log_format, LogFormat::Text);
    assert!(
        Cli::try_parse_from(["berth-controller", "--leader-elect"])
            .unwrap()
            .run
            .leader_elect
    );
}

#[test]
fn a_port_may_stand_behind_a_host() {
    let is = |host: &str, port| {
        Ok(HostAndPort {
            host: host.to_owned(),
            port,
        })
    };
    assert_eq!(host_and_port("10.0.0.7"), is("10.0.0.7", None));
    assert_eq!(host_and_port("10.0.0.7:1"), is("10.0.0.7", Some(1)));
    assert_eq!(
        host_and_port("example.org:9876"),
        is("example.org", Some(9876))
    );
    assert_eq!(host_and_port("fd00::1"), is("fd00::1", None));
    assert_eq!(host_and_port("[fd00::1]:2"), is("fd00::1", Some(2)));
}

#[test]
fn mistakes_are_explained() {
    for (flag, says) in [
        ("--lease-duration=0", "above 0"),
        ("--lease-duration=9223372036854775807", "below 100 years"),
        ("--metrics-bind-address=8080", "such as :8080"),
        ("--webhook-host=example.org:x", "not a host"),
        ("--webhook-host=", "not a host"),
        ("--namespace=a/b#", "is no namespace"),
        ("--webhook-secret=a?b", "is no object's name"),
    ] {
        let error = Cli::try_parse_from(["berth-controller", flag])
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
}
