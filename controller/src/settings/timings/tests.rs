use clap::Parser;

use super::*;
use crate::settings::flags::Cli;

fn checked(flags: &[&str]) -> Result<(), String> {
    let command = ["berth-controller"].iter().chain(flags);
    check(&Cli::try_parse_from(command).unwrap().run)
}

#[test]
fn default_and_kubernetes_timings_are_accepted() {
    assert_eq!(checked(&[]), Ok(()));
    assert_eq!(
        checked(&[
            "--lease-duration=15s",
            "--renew-deadline=10s",
            "--retry-period=2s"
        ]),
        Ok(())
    );
    assert_eq!(
        checked(&["--cert-validity=10m", "--ca-validity=10m"]),
        Ok(())
    );
}

#[test]
fn timings_that_allow_two_leaders_are_refused() {
    for flags in [
        &["--lease-duration=2s", "--renew-deadline=3s"][..],
        &["--renew-deadline=10s"],
        &["--lease-duration=3s", "--renew-deadline=3s"],
    ] {
        let error = checked(flags).unwrap_err();
        let named = flags.iter().all(|flag| error.contains(flag));
        assert!(
            named && error.contains("raise") && error.contains("another has taken"),
            "{flags:?}: {error}"
        );
    }
}

#[test]
fn a_retry_period_that_loses_the_lease_is_refused() {
    for (flags, fits) in [
        (["--retry-period=2500ms", "--renew-deadline=3s"], false),
        (["--retry-period=2s", "--renew-deadline=2s"], false),
        (["--retry-period=2400ms", "--renew-deadline=3s"], true),
    ] {
        let checked = checked(&flags);
        assert_eq!(checked.is_ok(), fits, "{flags:?}: {checked:?}");
        assert!(checked.err().is_none_or(|error| {
            flags
                .iter()
                .all(|flag| error.contains(&flag.replace("2500ms", "2.5s")))
        }));
    }
}

#[test]
fn without_an_election_its_times_do_not_matter() {
    assert_eq!(
        checked(&["--leader-elect=false", "--renew-deadline=10s"]),
        Ok(())
    );
}

#[test]
fn grants_expire_15s_after_apiserver_request_timeout() {
    for (flag, expected) in [
        (None, Ok(75)),
        (Some("--apiserver-request-timeout=5s"), Ok(20)),
        (Some("--apiserver-request-timeout=90"), Ok(105)),
        (Some("--apiserver-request-timeout=1h"), Ok(3615)),
        (
            Some("--apiserver-request-timeout=4999ms"),
            Err("is shorter than 5s"),
        ),
        (
            Some("--apiserver-request-timeout=61m"),
            Err("is longer than 3600s"),
        ),
    ] {
        let run = Cli::try_parse_from(["berth-controller"].into_iter().chain(flag))
            .unwrap()
            .run;
        match (check(&run), expected) {
            (Ok(()), Ok(seconds)) => {
                assert_eq!(patience(&run), Duration::from_secs(seconds), "{flag:?}")
            }
            (Err(error), Err(says)) => {
                let helps = error.contains("--apiserver-request-timeout=")
                    && error.contains("give the apiserver's");
                assert!(helps && error.contains(says), "{flag:?}: {error}");
            }
            (found, expected) => panic!("{flag:?}: {found:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn certificates_that_end_too_soon_are_refused() {
    for flags in [
        &["--cert-validity=9m"][..],
        &["--cert-validity=2h", "--ca-validity=1h"],
    ] {
        let error = checked(flags).unwrap_err();
        assert!(
            error.contains("--cert-validity=") && error.contains("raise"),
            "{error}"
        );
    }
}
