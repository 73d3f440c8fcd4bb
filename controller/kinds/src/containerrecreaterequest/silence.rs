//! How long the controller waits for a report of the node's daemon. Only the controller's clock
//! counts: it says when the controller wrote the request and since when it has seen a container
//! ready. Times that kubelets and daemons report come from other clocks.

use berth_api::names::condition::MIN_STARTED_PENDING;
use berth_api::v1beta1::containerrecreaterequest::RecreatePhase;
use berth_api::v1beta1::nodeimage::{StopContainer, StopPhase};
use berth_workload::objects::condition::condition;
use berth_workload::objects::pod::Pod;
use berth_workload::update::recreate::{Course, age, is_virtual, phase};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Snapshot, pod};

/// The time without a report after which the controller gives a request up.
const SILENCE: SignedDuration = SignedDuration::from_mins(1);
/// The time without a report after which the status says that the report is missing.
const REPORT_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// How much later a daemon that has not seen a container start reports that the container has
/// lasted.
const STARTS_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// A report that the controller waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The container that the report is about.
    pub(super) container: String,
    /// The time when the report is due.
    due: Timestamp,
}

impl Word {
    /// The time until the status says that the report is missing.
    pub(super) fn time_until_reported(&self, now: Timestamp) -> SignedDuration {
        REPORT_AFTER.saturating_sub(now.duration_since(self.due))
    }
}

/// How long the controller still waits for the report; `None` while none is due.
pub(super) fn silence_left(snapshot: &Snapshot, now: Timestamp) -> Option<SignedDuration> {
    let request = &*snapshot.request;
    let since_creation = || SILENCE.saturating_sub(age(request, now));
    let pod = pod(snapshot)?;
    if is_virtual(request) {
        return (phase(request) == RecreatePhase::Pending).then(since_creation);
    }
    if snapshot.image.is_none() {
        return Some(since_creation());
    }
    let word = awaited(snapshot, pod)?;
    Some(SILENCE.saturating_sub(now.duration_since(word.due)))
}

/// The report of the daemon that is due first. The first answer to a stop is due at once. The
/// outcome of a stop that the daemon works on for a request is due when the grace period is over.
/// The report that a container has lasted is due after the time that the container must last.
pub(super) fn awaited(snapshot: &Snapshot, pod: &Pod) -> Option<Word> {
    let course = snapshot.course(pod);
    let stops = snapshot
        .request
        .spec
        .containers
        .iter()
        .filter_map(|container| course.requested_stop(&container.name));
    let of_stops = stops.filter_map(|stop| {
        let due = match course.answer(stop).map(|answer| answer.phase) {
            None => stop.created_at.as_ref()?.0,
            Some(StopPhase::Stopping) => course.stops_by(stop).filter(|_| course.is_begun(stop))?,
            Some(_) => return None,
        };
        Some(Word {
            container: stop.container.clone(),
            due,
        })
    });
    of_stops
        .chain(of_age(snapshot, &course))
        .min_by_key(|word| word.due)
}

fn of_age(snapshot: &Snapshot, course: &Course<'_>) -> Option<Word> {
    let (stop, now) = course.unreported_age()?;
    let since = noted(snapshot, stop, &now.container_id)?
        .last_transition_time
        .0;
    Some(Word {
        container: stop.container.clone(),
        due: since.checked_add(lasts_within(stop)).ok()?,
    })
}

/// The condition for a container that is ready and that the daemon has not yet reported as lasting,
/// with the time since when the controller has seen it ready. A wait as short as a restart needs no
/// write.
pub(super) fn min_started_pending(
    snapshot: &Snapshot,
    pod: &Pod,
    now: Timestamp,
) -> Option<Condition> {
    let course = snapshot.course(pod);
    let (stop, runs) = course.unreported_age()?;
    if let Some(noted) = noted(snapshot, stop, &runs.container_id) {
        return Some(noted.clone());
    }
    let is_due = runs.ready && restarts_by(&course, stop)? <= now;
    is_due.then(|| {
        condition(
            MIN_STARTED_PENDING,
            true,
            "AgeNotTold",
            message(stop, &runs.container_id),
            now,
        )
    })
}

/// The time until the status gets this condition.
pub(super) fn noted_in(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let course = snapshot.course(pod);
    let (stop, runs) = course.unreported_age()?;
    let is_new = runs.ready && noted(snapshot, stop, &runs.container_id).is_none();
    let due = restarts_by(&course, stop).filter(|_| is_new)?;
    Some(due.duration_since(now)).filter(SignedDuration::is_positive)
}

/// The condition about this container. Its time says nothing about another container, such as the
/// one that replaced it.
fn noted<'a>(snapshot: &'a Snapshot, stop: &StopContainer, id: &str) -> Option<&'a Condition> {
    let message = message(stop, id);
    let mut conditions = snapshot.request.status.as_ref()?.conditions.iter();
    conditions
        .find(|condition| condition.type_ == MIN_STARTED_PENDING && condition.message == message)
}

fn message(stop: &StopContainer, id: &str) -> String {
    let (name, seconds) = (&stop.container, stop.min_started_seconds);
    format!(
        "container {name} was ready as {id}; its node's daemon is to say when it has run for minStartedSeconds, {seconds}"
    )
}

fn lasts_within(stop: &StopContainer) -> SignedDuration {
    SignedDuration::from_secs(i64::from(stop.min_started_seconds)).saturating_add(STARTS_WITHIN)
}

/// The time by which a container that is stopped in its grace period and started at once has
/// lasted.
fn restarts_by(course: &Course<'_>, stop: &StopContainer) -> Option<Timestamp> {
    course.stops_by(stop)?.checked_add(lasts_within(stop)).ok()
}
