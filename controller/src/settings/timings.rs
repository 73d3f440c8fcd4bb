//! Times of the command line that must fit each other.

use std::time::Duration;

use crate::settings::flags::Run;

/// The longest time until a leader renews its lease again, as a multiple of `--retry-period`;
/// Kubernetes' own leaders count so, too.
const JITTER: f64 = 1.2;
/// The shortest validity of a serving certificate. With less, its successor would be due before
/// every client trusts that one.
pub const SHORTEST_CERTIFICATE: Duration = Duration::from_secs(600);
/// The time that an apiserver waits for the answer about one pod.
const SHORTEST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A pod that may go but stays is charged to its budget for this long. More would be longer than
/// any user waits.
const LONGEST_REQUEST_TIMEOUT: Duration = Duration::from_secs(3600);
/// A request may be written until the apiserver gives it up, and some time passes until the stores
/// see the write.
const LANDED: Duration = Duration::from_secs(15);

/// The time after which a request that a budget let through can have no effect any more.
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
mod tests;
