//! How long a word of the node's daemon is waited for. By the controller's clock alone, which wrote the questions and since when it sees a
//! container ready: what kubelets and daemons tell of times is of other clocks.

use berth_api::names::condition::MIN_STARTED_PENDING;
use berth_api::v1beta1::containerrecreaterequest::RecreatePhase;
use berth_api::v1beta1::nodeimage::{StopContainer, StopPhase};
use berth_workload::objects::condition::condition;
use berth_workload::objects::pod::Pod;
use berth_workload::update::recreate::{Course, age, is_virtual, phase};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Snapshot, pod};

/// How long nobody answers until a request is given up.
const SILENCE: SignedDuration = SignedDuration::from_mins(1);
/// How long nobody answers until that is told.
const TOLD_AFTER: SignedDuration = SignedDuration::from_secs(30);
/// A daemon that has not seen a container start says so much later that it has lasted.
const STARTS_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// A word that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The container that it is about.
    pub(super) container: String,
    /// When it is due.
    due: Timestamp,
}

impl Word {
    /// How long until it is told that it has not come.
    pub(super) fn told_in(&self, now: Timestamp) -> SignedDuration {
        TOLD_AFTER.saturating_sub(now.duration_since(self.due))
    }
}

/// How long an answer is still waited for; `None` while none is due.
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

/// The word of the daemon that is due first: the first one at once, what comes of a stop that it is at for a request when the grace period
/// is over, and that a container has lasted when it should have.
pub(super) fn awaited(snapshot: &Snapshot, pod: &Pod) -> Option<Word> {
    let course = snapshot.course(pod);
    let asked = snapshot
        .request
        .spec
        .containers
        .iter()
        .filter_map(|container| course.asked(&container.name));
    let of_stops = asked.filter_map(|stop| {
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
    let (stop, now) = course.untold_age()?;
    let since = noted(snapshot, stop, &now.container_id)?
        .last_transition_time
        .0;
    Some(Word {
        container: stop.container.clone(),
        due: since.checked_add(lasts_within(stop)).ok()?,
    })
}

/// What the status says of a container that has been ready and of which the daemon has yet to say that it has lasted, with the time since
/// which the controller sees that. As long as a restart may take it is worth no write.
pub(super) fn min_started_pending(
    snapshot: &Snapshot,
    pod: &Pod,
    now: Timestamp,
) -> Option<Condition> {
    let course = snapshot.course(pod);
    let (stop, runs) = course.untold_age()?;
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

/// How long until that is written.
pub(super) fn noted_in(snapshot: &Snapshot, pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let course = snapshot.course(pod);
    let (stop, runs) = course.untold_age()?;
    let is_new = runs.ready && noted(snapshot, stop, &runs.container_id).is_none();
    let due = restarts_by(&course, stop).filter(|_| is_new)?;
    Some(due.duration_since(now)).filter(SignedDuration::is_positive)
}

/// Of another container, the one that took its place for one, the time says nothing.
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

/// By then a container that is stopped in its grace period and started at once has lasted.
fn restarts_by(course: &Course<'_>, stop: &StopContainer) -> Option<Timestamp> {
    course.stops_by(stop)?.checked_add(lasts_within(stop)).ok()
}
