//! Times of the command line that must fit each other.

use std::time::Duration;

use crate::flags::Run;

/// A leader tries its lease again this much later at most than `--retry-period` says; Kubernetes' own leaders count so, too.
const JITTER: f64 = 1.2;
/// A serving certificate that is valid for less is due for its successor before every client trusts that.
pub const SHORTEST_CERTIFICATE: Duration = Duration::from_secs(600);
/// An apiserver waits so long for the answer about one pod.
const SHORTEST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Whoever is let go and stays would be charged for longer than anybody waits.
const LONGEST_REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);
/// What an apiserver gives up may have been written until then, and some time passes until that is seen.
const LANDED: Duration = Duration::from_secs(15);

/// After so long nothing can come of a request that a budget let through.
pub fn patience(flags: &Run) -> Duration {
    flags.apiserver_request_timeout + LANDED
}

/// Whether the times fit each other.
///
/// # Errors
/// Which flags do not, with their values, what would happen, and what to do.
pub fn check(flags: &Run) -> Result<(), String> {
    let Run {
        lease_duration: lease,
        renew_deadline: renew,
        retry_period: retry,
        ..
    } = flags;
    if flags.leader_elect && renew >= lease {
        return Err(format!(
            "--renew-deadline={renew:?} is not shorter than --lease-duration={lease:?}: a leader would go on when another has \
             taken its lease; lower the first or raise the second (defaults: 3s and 4s)"
        ));
    }
    let least = retry.mul_f64(JITTER);
    if flags.leader_elect && least >= *renew {
        return Err(format!(
            "--retry-period={retry:?} times {JITTER} is not shorter than --renew-deadline={renew:?}: a leader would lose its \
             lease before it renews it; lower the first or raise the second (defaults: 1500ms and 3s)"
        ));
    }
    let (cert, ca) = (flags.cert_validity, flags.ca_validity);
    if cert < SHORTEST_CERTIFICATE {
        return Err(format!(
            "--cert-validity={cert:?} is shorter than {SHORTEST_CERTIFICATE:?}: a certificate would be replaced before all \
             clients trust the next one; raise it (default: 8760h)"
        ));
    }
    if ca < cert {
        return Err(format!(
            "--ca-validity={ca:?} is shorter than --cert-validity={cert:?}: a certificate ends with its authority; raise the \
             first or lower the second (defaults: 87600h and 8760h)"
        ));
    }
    let request = flags.apiserver_request_timeout;
    if request < SHORTEST_REQUEST_TIMEOUT {
        return Err(format!(
            "--apiserver-request-timeout={request:?} is shorter than {SHORTEST_REQUEST_TIMEOUT:?}: what a budget granted would \
             expire while it may still be carried out; give the apiserver's --request-timeout, or more (default: 60s)"
        ));
    }
    if request > LONGEST_REQUEST_TIMEOUT {
        return Err(format!(
            "--apiserver-request-timeout={request:?} is longer than {LONGEST_REQUEST_TIMEOUT:?}: a pod that was let go and stayed \
             would use its budget up for so long; give the apiserver's --request-timeout (default: 60s)"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::Cli;

    fn checked(flags: &[&str]) -> Result<(), String> {
        let command = ["berth-controller"].iter().chain(flags);
        check(&Cli::try_parse_from(command).unwrap().run)
    }

    #[test]
    fn default_times_and_those_of_kubernetes_components_are_accepted() {
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
    fn times_that_let_two_replicas_lead_are_refused_with_flags_values_and_a_remedy() {
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
    fn grants_expire_fifteen_seconds_after_the_apiserver_has_given_their_requests_up() {
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
}
