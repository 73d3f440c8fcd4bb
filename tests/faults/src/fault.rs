//! The faults that can be injected.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

/// How long a write without an answer stays in doubt: the controller's `--write-timeout`.
pub const IN_DOUBT: Duration = Duration::from_secs(2);
/// The time after which a write that was refused as one of too many may be tried again.
pub(crate) const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The point of a write at which the controller dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The write never reaches the apiserver.
    Before,
    /// The apiserver carries it out, and its answer never reaches the controller.
    After,
    /// The controller has the answer, and does nothing more.
    Answered,
}

/// How the apiserver fails to carry out a write, or to answer it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// 409, as if another writer had written the object.
    Conflict,
    /// 429, with the time after which to try again.
    TooMany,
    /// 500.
    Internal,
    /// 504, and the write was not carried out.
    TimedOut,
    /// 504, and the write was carried out.
    TimedOutDone,
    /// The connection breaks before the answer, and the write was carried out.
    Lost,
}

/// How the controller's view falls behind the apiserver's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lag {
    /// Events come late.
    Late,
    /// The watch breaks off, and the events after that are lost, because the watch's version has
    /// expired.
    Missed,
    /// The watch breaks off, and the next one repeats events that the controller has seen.
    Repeated,
}

/// A fault. A number is the write or the event of the run that triggers it, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing.
    None,
    /// The controller dies once.
    One(usize, Side),
    /// The controller dies again and again. Before: every life but the last has one write, and ends
    /// at its second. After and answered: every life but the last has one write.
    Each(Side),
    /// The write is refused once.
    Refused(usize, Refusal),
    /// From this write on, the controller's view of a resource falls behind for a while.
    Lagging(usize, Lag, &'static str),
    /// From this event of a resource on, the controller's view of it falls behind for a while.
    Unseen(usize, Lag, &'static str),
    /// The process is paused at the write, and resumes when another replica leads and has nothing
    /// more to do. Events wait meanwhile.
    Paused(usize, Side),
    /// With two replicas: the leader gets SIGTERM after this write, and releases its lease; the
    /// other replicas' view of a resource falls behind from the write on.
    HandedOver(usize, &'static str),
    /// The controller dies after this write, and in its next life sees nothing new of a resource
    /// for a while after the list.
    Stale(usize, &'static str),
}

impl Refusal {
    /// All refusals.
    pub const ALL: [Refusal; 6] = [
        Refusal::Conflict,
        Refusal::TooMany,
        Refusal::Internal,
        Refusal::TimedOut,
        Refusal::TimedOutDone,
        Refusal::Lost,
    ];

    /// The apiserver carries out the write all the same.
    pub(crate) fn is_done(self) -> bool {
        matches!(self, Refusal::TimedOutDone | Refusal::Lost)
    }

    /// Status and reason of the answer; `None` without an answer.
    pub(crate) fn answer(self) -> Option<(StatusCode, &'static str)> {
        match self {
            Refusal::Conflict => Some((StatusCode::CONFLICT, "Conflict")),
            Refusal::TooMany => Some((StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")),
            Refusal::Internal => Some((StatusCode::INTERNAL_SERVER_ERROR, "InternalError")),
            Refusal::TimedOut | Refusal::TimedOutDone => {
                Some((StatusCode::GATEWAY_TIMEOUT, "Timeout"))
            }
            Refusal::Lost => None,
        }
    }
}

impl Fault {
    /// The number of the write that triggers it; `None` if no single write does.
    pub fn write(self) -> Option<usize> {
        match self {
            Fault::None | Fault::Each(_) | Fault::Unseen(..) => None,
            Fault::One(number, _)
            | Fault::Paused(number, _)
            | Fault::Refused(number, _)
            | Fault::Lagging(number, ..)
            | Fault::HandedOver(number, _)
            | Fault::Stale(number, _) => Some(number),
        }
    }

    /// The number of the event that triggers it; `None` if a write does.
    pub fn event(self) -> Option<usize> {
        if let Fault::Unseen(number, ..) = self {
            Some(number)
        } else {
            None
        }
    }

    /// How long a controller may wait after this fault before it goes on. The result of a write
    /// that was not answered, or that failed on the server's side, stays unknown until its timeout.
    /// A write that is refused for a while is tried again after it.
    pub fn settle_time(self) -> Duration {
        match self {
            Fault::Refused(_, Refusal::Conflict) => Duration::ZERO,
            Fault::Refused(_, Refusal::TooMany) => TRY_AGAIN,
            Fault::Refused(..) | Fault::Paused(..) => IN_DOUBT,
            _ => Duration::ZERO,
        }
    }

    /// Whether the controller's view falls behind: such a fault is effective when it hides an
    /// event.
    pub fn hides(self) -> bool {
        matches!(
            self,
            Fault::Lagging(..) | Fault::Unseen(..) | Fault::Stale(..) | Fault::HandedOver(..)
        )
    }

    /// Whether another replica leads after it, if there is another.
    pub fn changes_the_leader(self) -> bool {
        matches!(
            self,
            Fault::One(..) | Fault::Paused(..) | Fault::HandedOver(..)
        )
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Before => "before",
            Side::After => "after",
            Side::Answered => "after the answer to",
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Conflict => "a conflict",
            Refusal::TooMany => "too many requests",
            Refusal::Internal => "an internal error",
            Refusal::TimedOut => "a timeout",
            Refusal::TimedOutDone => "a timeout, though done,",
            Refusal::Lost => "no answer, though done,",
        })
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lag::Late => "late",
            Lag::Missed => "missed",
            Lag::Repeated => "repeated",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::None => f.write_str("undisturbed"),
            Fault::One(number, at) => write!(f, "killed {at} write {number}"),
            Fault::Paused(number, at) => write!(f, "paused {at} write {number}"),
            Fault::Each(at) => write!(f, "killed {at} each write"),
            Fault::Refused(number, how) => write!(f, "{how} for write {number}"),
            Fault::Lagging(number, lag, resource) => {
                write!(f, "{resource} {lag} from write {number} on")
            }
            Fault::Unseen(number, lag, resource) => {
                write!(f, "{resource} {lag} from their event {number} on")
            }
            Fault::HandedOver(number, resource) => {
                write!(
                    f,
                    "asked to end after the answer to write {number}, then {resource} late for its successor"
                )
            }
            Fault::Stale(number, resource) => {
                write!(
                    f,
                    "killed after the answer to write {number}, then {resource} late"
                )
            }
        }
    }
}
