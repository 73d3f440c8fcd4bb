//! Containers that are stopped for a ContainerRecreateRequest: which ones, when, and what the
//! daemon reports of them.
//!
//! A request names a container by its id. The daemon stops a container only if it runs, has this
//! id, and has the pod and the name of the request by the labels that its kubelet gave it. The
//! daemon runs nothing that a request says.

mod begin;
mod container;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use berth_api::v1beta1::nodeimage::{StopContainer, StopPhase, StoppedContainer};
use k8s_cri::v1::Container;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

use crate::runtime::cri::CriError;
use crate::tasks::{Began, Now};
pub use begin::Begin;
use begin::{Begun, begin};
use container::{id, is_meant, is_of, is_running, time_left};

/// After this time the daemon reports that a stop is under way. The controller gives up a request
/// after a minute without a report.
const REPORT_AFTER: Duration = Duration::from_secs(20);
/// The pause after the runtime went away during a stop.
const AGAIN: Duration = Duration::from_secs(1);
/// The most bytes of a message.
const MESSAGE_MAX: usize = 512;

/// The stops that are under way, and the results to report.
#[derive(Debug, Default)]
pub struct Stops {
    answers: Vec<StoppedContainer>,
    /// Keyed by the runtime's id: the stop that is under way, and since when.
    at_work: HashMap<String, (StopContainer, Instant)>,
    /// The stops that have begun and are not over, under way or not.
    begun: HashMap<StopKey, Begun>,
    /// Keyed by the runtime's id: requested containers that are being stopped for another reason,
    /// and since when.
    elsewhere: HashMap<String, Instant>,
    /// Keyed by the runtime's id: since when the next containers have been seen to run.
    running: HashMap<String, Instant>,
    /// Something may have changed since the containers were listed last.
    due: bool,
    under_way: bool,
    /// When to list the containers again.
    wake: Option<Instant>,
}

/// The key of a stop: the request, the container's name and the container's id.
type StopKey = (String, String, String);

impl Stops {
    /// Takes over the results of an earlier daemon. A stop that it had under way begins again if
    /// the container still runs.
    pub fn take_over(&mut self, answers: &[StoppedContainer], now: Now) {
        let known = self.answers.iter().map(key).collect::<Vec<_>>();
        for answer in answers
            .iter()
            .filter(|answer| !known.contains(&key(answer)))
        {
            if answer.phase.is_final() {
                self.answers.push(answer.clone());
            } else if let Some(at) = &answer.begun_at {
                // Whether its hook was done is not known any more.
                let begun = Begun {
                    at: Began::reported(at.0, now),
                    is_cut_short: true,
                    is_hook_done: false,
                };
                self.begun.entry(key(answer)).or_insert(begun);
            }
        }
        self.due = true;
    }

    /// Drops all results because the NodeImage is another object from now on. Stops that are under
    /// way go on.
    pub fn forget(&mut self) {
        self.answers.clear();
        self.due = true;
    }

    /// The containers, or the requested stops, may have changed.
    pub fn changed(&mut self) {
        self.due = true;
    }

    /// Is the container with this id being stopped?
    pub fn is_at_work(&self, id: &str) -> bool {
        self.at_work.contains_key(id)
    }

    /// Does any of the requested stops lack its final result?
    pub fn are_open(&self, wanted: &[StopContainer]) -> bool {
        wanted.iter().any(|stop| self.is_open(stop))
    }

    fn is_open(&self, stop: &StopContainer) -> bool {
        match self.answer(stop) {
            None => true,
            Some(answer) => {
                stop.min_started_seconds > 0
                    && !stop.cancelled
                    && answer.lasting_container_id.is_empty()
            }
        }
    }

    fn answer(&self, stop: &StopContainer) -> Option<&StoppedContainer> {
        self.answers
            .iter()
            .find(|answer| stop.is_answered_by(answer))
    }

    /// Must the containers be listed now? True once for each need.
    pub fn looks(&mut self, wanted: &[StopContainer], now: Instant) -> bool {
        self.due |= self.wake.is_some_and(|wake| wake <= now);
        let looks = self.due && !self.under_way && self.are_open(wanted);
        if looks {
            (self.due, self.under_way, self.wake) = (false, true, None);
        }
        looks
    }

    /// When to list the containers again, or to report a stop.
    pub fn wake(&self, wanted: &[StopContainer], now: Instant) -> Option<Instant> {
        let since = wanted.iter().filter_map(|stop| self.stopping_since(stop));
        let reports = since
            .map(|since| since + REPORT_AFTER)
            .filter(|at| *at > now);
        // After a past time the stop waits for the runtime, and its return triggers a step.
        [self.wake, reports.min()]
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
            .min()
    }

    /// Takes the list of containers, or the error of listing them, and returns the stops that begin
    /// now. `is_stopped_otherwise` is true for containers that are being stopped for another
    /// reason.
    pub fn seen(
        &mut self,
        wanted: &[StopContainer],
        seen: Result<&[Container], &CriError>,
        is_stopped_otherwise: impl Fn(&str) -> bool,
        now: Now,
    ) -> Vec<Begin> {
        self.under_way = false;
        let Ok(containers) = seen else {
            self.wake = Some(now.steady + AGAIN);
            return Vec::new();
        };
        let mut begins = Vec::new();
        let elsewhere = wanted
            .iter()
            .map(|stop| id(&stop.container_id))
            .filter(|id| is_stopped_otherwise(id));
        let since = |id: &str| {
            (
                id.to_owned(),
                self.elsewhere.get(id).copied().unwrap_or(now.steady),
            )
        };
        self.elsewhere = elsewhere.map(since).collect();
        for stop in wanted {
            let id = id(&stop.container_id);
            if self.answer(stop).is_some()
                || self.at_work.contains_key(id)
                || is_stopped_otherwise(id)
            {
                continue;
            }
            let begun = self.begun.get(&request_key(stop)).copied();
            if stop.cancelled && begun.is_none() {
                self.note(stop, StopPhase::Cancelled, "", "");
                continue;
            }
            if self.is_behind_another(stop, begun.is_some()) {
                continue;
            }
            match containers
                .iter()
                .find(|container| is_meant(container, stop))
            {
                Some(container) => {
                    self.at_work
                        .insert(container.id.clone(), (stop.clone(), now.steady));
                    let first = Begun {
                        at: Began::now(now, now.time),
                        is_cut_short: false,
                        is_hook_done: false,
                    };
                    self.begun.entry(request_key(stop)).or_insert(first);
                    begins.push(begin(stop, container, begun, now));
                }
                // The container ended by the stop that was begun, while no daemon watched it. Stops
                // that wait for it go on.
                None if begun.is_some() => {
                    self.note(stop, StopPhase::Stopped, "", "");
                    self.due = true;
                }
                None => self.note(stop, StopPhase::Gone, "", ""),
            }
        }
        self.look_for_next_ones(wanted, containers, now);
        begins
    }

    /// Must the stop wait for another one? A request stops its containers one after the other. A
    /// stop that has begun comes first, also one of the same container for another request, because
    /// no stop begins twice.
    fn is_behind_another(&self, stop: &StopContainer, has_begun: bool) -> bool {
        let is_other = |(request, container, container_id): &StopKey| {
            if *request == stop.request {
                *container != stop.container
            } else {
                id(container_id) == id(&stop.container_id)
            }
        };
        self.at_work
            .values()
            .any(|(other, _)| other.request == stop.request)
            || !has_begun && self.begun.keys().any(is_other)
    }

    /// Notes that a stop was not begun after all.
    pub fn not_begun(&mut self, begin: &Begin) {
        self.at_work.remove(&begin.id);
        let key = request_key(&begin.stop);
        if self
            .begun
            .get(&key)
            .is_some_and(|begun| !begun.is_cut_short)
        {
            self.begun.remove(&key);
        }
        self.due = true;
    }

    /// Takes the result of a stop.
    pub fn over(
        &mut self,
        begin: &Begin,
        hook: Option<&str>,
        result: Result<(), &CriError>,
        now: Now,
    ) {
        self.at_work.remove(&begin.id);
        self.due = true;
        let (is_hook_done, hook) = (hook.is_none(), hook.unwrap_or_default());
        match result {
            Ok(()) => self.note(&begin.stop, StopPhase::Stopped, "", hook),
            Err(CriError::Refused(why)) => self.note(&begin.stop, StopPhase::Failed, why, hook),
            // The runtime knows whether the container has stopped, when it is back.
            Err(CriError::Away { .. }) => {
                if let Some(begun) = self.begun.get_mut(&request_key(&begin.stop)) {
                    (begun.is_cut_short, begun.is_hook_done) =
                        (true, begun.is_hook_done || is_hook_done);
                }
                self.due = false;
                self.wake = Some(now.steady + AGAIN);
            }
        }
    }

    fn note(&mut self, stop: &StopContainer, phase: StopPhase, message: &str, hook: &str) {
        self.begun.remove(&request_key(stop));
        self.answers.retain(|answer| {
            (&answer.request, &answer.container) != (&stop.request, &stop.container)
        });
        self.answers.push(StoppedContainer {
            request: stop.request.clone(),
            container: stop.container.clone(),
            container_id: stop.container_id.clone(),
            phase,
            begun_at: None,
            message: cut(message),
            hook_message: cut(hook),
            lasting_container_id: String::new(),
        });
    }

    /// Reports the new containers that have run for long enough, measured by this node's clock
    /// alone.
    fn look_for_next_ones(&mut self, wanted: &[StopContainer], containers: &[Container], now: Now) {
        self.running
            .retain(|id, _| containers.iter().any(|container| container.id == *id));
        for answer in &mut self.answers {
            let Some(stop) = wanted.iter().find(|stop| stop.is_answered_by(answer)) else {
                continue;
            };
            let is_due =
                matches!(answer.phase, StopPhase::Stopped | StopPhase::Gone) && !stop.cancelled;
            if !is_due || stop.min_started_seconds == 0 {
                continue;
            }
            let next = containers
                .iter()
                .filter(|c| is_running(c) && is_of(c, stop) && c.id != id(&stop.container_id));
            let Some(next) =
                next.max_by_key(|c| (c.metadata.as_ref().map_or(0, |m| m.attempt), c.created_at))
            else {
                answer.lasting_container_id.clear();
                continue;
            };
            let since = *self.running.entry(next.id.clone()).or_insert(now.steady);
            let left = time_left(next, stop, now, since);
            if left.is_positive() {
                answer.lasting_container_id.clear();
                let at = now.steady + left.unsigned_abs();
                self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
            } else if id(&answer.lasting_container_id) != next.id {
                let scheme = stop
                    .container_id
                    .split_once("://")
                    .map_or("", |(scheme, _)| scheme);
                answer.lasting_container_id = format!("{scheme}://{}", next.id);
            }
        }
    }

    /// The results to report for the requested stops.
    pub fn answers(&self, wanted: &[StopContainer], now: Instant) -> Vec<StoppedContainer> {
        let of = |stop: &StopContainer| {
            let (since, begun) = (
                self.stopping_since(stop),
                self.begun.get(&request_key(stop)),
            );
            let stopping = || StoppedContainer {
                request: stop.request.clone(),
                container: stop.container.clone(),
                container_id: stop.container_id.clone(),
                begun_at: begun.map(|begun| Time(begun.at.time)),
                ..StoppedContainer::default()
            };
            // Report a stop at once if the next daemon could take it for one that it must not
            // begin, or if it was reported before.
            let is_due = since.is_some_and(|since| now.duration_since(since) >= REPORT_AFTER)
                || begun.is_some_and(|begun| begun.is_cut_short || stop.cancelled);
            self.answer(stop).cloned().or_else(|| is_due.then(stopping))
        };
        wanted.iter().filter_map(of).collect()
    }

    /// Since when the container is being stopped, for any reason.
    fn stopping_since(&self, stop: &StopContainer) -> Option<Instant> {
        let id = id(&stop.container_id);
        self.at_work
            .get(id)
            .map(|(_, since)| since)
            .or_else(|| self.elsewhere.get(id))
            .copied()
    }

    /// Drops the results of stops that are not requested any more, and their begun stops unless
    /// they are under way.
    pub fn drop_others(&mut self, wanted: &[StopContainer]) {
        self.answers
            .retain(|answer| wanted.iter().any(|stop| stop.is_answered_by(answer)));
        let at_work = self.at_work.values().map(|(stop, _)| stop);
        let known: HashSet<_> = wanted.iter().chain(at_work).map(request_key).collect();
        self.begun.retain(|key, _| known.contains(key));
    }
}

fn key(answer: &StoppedContainer) -> StopKey {
    (
        answer.request.clone(),
        answer.container.clone(),
        answer.container_id.clone(),
    )
}

fn request_key(stop: &StopContainer) -> StopKey {
    (
        stop.request.clone(),
        stop.container.clone(),
        stop.container_id.clone(),
    )
}

fn cut(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(MESSAGE_MAX)
        .collect()
}

#[cfg(test)]
mod tests;
