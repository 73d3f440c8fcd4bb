//! The writes and events of a run, and which of them triggers its fault.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::Method;
use serde_json::Value;
use tokio::time::Instant;

use crate::fault::{Fault, Lag, Refusal, Side};
use crate::write::{Write, is_of_run};

/// This resource holds the secret paths of the webhooks, which every start of the controller writes
/// anew.
pub const PATHS: &str = "mutatingwebhookconfigurations";

/// A write that the controller sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The number of the controller's life, counted from 1 over all runs.
    pub life: usize,
    /// The write.
    pub write: Write,
    /// Its content; null if it is not JSON.
    pub body: Value,
    /// The write brings other secret paths, and perhaps other changes: each start brings one, and
    /// each ten minutes.
    pub is_renewal: bool,
    /// The apiserver's answer as an HTTP status; `None` if the write was held back, or has no
    /// answer yet.
    pub answer: Option<u16>,
    /// How many writes had arrived at the time of the answer.
    pub arrived_by_then: usize,
}

impl Entry {
    /// The apiserver has carried it out.
    pub fn is_done(&self) -> bool {
        self.answer.is_some_and(|code| (200..300).contains(&code))
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "life {}: {} ", self.life, self.write)?;
        match self.answer {
            Some(code) => write!(f, "{code}"),
            None => write!(f, "held back"),
        }
    }
}

/// The decision about a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The write passes and is not counted.
    Beside,
    /// The write passes; its answer belongs to the entry at this index.
    Pass(usize),
    /// The controller's view of the resource falls behind, and then the write passes.
    LagThenPass(usize, Lag, &'static str),
    /// The other replicas' view of the resource falls behind, the write passes, and then the
    /// controller gets the signal to end.
    LastBeforeTheEnd(usize, &'static str),
    /// The write is refused in this way.
    Refuse(usize, Refusal),
    /// The controller dies, or pauses, at this point of the write.
    Fatal(usize, Side),
    /// The controller is about to die or is paused: nothing more of it reaches the apiserver.
    Hold,
}

/// The writes of a run, in the order in which they arrived, and the number of events.
#[derive(Debug)]
pub struct Ledger {
    namespace: String,
    fault: Fault,
    entries: Vec<Entry>,
    /// How many events have come, by resource.
    events: BTreeMap<String, usize>,
    life: usize,
    passed_in_life: usize,
    /// The life that ends or is paused.
    dying: Option<usize>,
    kills: usize,
    /// The fault was triggered.
    triggered: bool,
    last_request: Option<Instant>,
    /// How many writes were sent to the apiserver and have no answer yet.
    unanswered: usize,
    old_reads: Vec<String>,
    /// The last written secret of each webhook path.
    secrets: BTreeMap<String, String>,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger::of(Vec::new())
    }

    /// A ledger of these writes, in this order.
    pub fn of(entries: Vec<Entry>) -> Ledger {
        Ledger {
            namespace: String::new(),
            fault: Fault::None,
            entries,
            events: BTreeMap::new(),
            life: 0,
            passed_in_life: 0,
            dying: None,
            kills: 0,
            triggered: false,
            last_request: None,
            unanswered: 0,
            old_reads: Vec::new(),
            secrets: BTreeMap::new(),
        }
    }

    /// Begins a run in this namespace, with this injected fault.
    pub(crate) fn begin(&mut self, namespace: &str, fault: Fault) {
        namespace.clone_into(&mut self.namespace);
        self.fault = fault;
        self.entries.clear();
        self.events.clear();
        self.passed_in_life = 0;
        self.kills = 0;
        self.triggered = false;
    }

    /// The resource of which the controller must see nothing new in the life that begins.
    pub(crate) fn stale(&self) -> Option<&'static str> {
        match self.fault {
            Fault::Stale(_, resource) if self.triggered && self.kills == 1 => Some(resource),
            _ => None,
        }
    }

    /// Begins another life of the controller; returns its number.
    pub(crate) fn begin_life(&mut self) -> usize {
        self.life += 1;
        self.passed_in_life = 0;
        self.last_request = None;
        self.life
    }

    /// How long the fault may still have consequences while nothing happens.
    pub fn settle_time(&self) -> Duration {
        if self.triggered {
            self.fault.settle_time()
        } else {
            Duration::ZERO
        }
    }

    /// Whether the fault pauses the controller instead of killing it.
    pub(crate) fn only_pauses(&self) -> bool {
        matches!(self.fault, Fault::Paused(..))
    }

    /// Whether the fault ends the controller by a signal instead of killing it.
    pub(crate) fn only_asks_to_end(&self) -> bool {
        matches!(self.fault, Fault::HandedOver(..))
    }

    /// No replica dies or is paused any more.
    pub(crate) fn goes_on(&mut self) {
        self.dying = None;
    }

    /// Notes a request of any kind.
    pub(crate) fn requested(&mut self, at: Instant) {
        self.last_request = Some(at);
    }

    /// Notes that a write is sent to the apiserver, of the run or not.
    pub(crate) fn sent(&mut self) {
        self.unanswered += 1;
    }

    /// Notes the end of a write that was sent to the apiserver: from now on the controller can
    /// continue with its result.
    pub(crate) fn ended(&mut self, at: Instant) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.last_request = self.last_request.map(|last| last.max(at));
    }

    /// Notes a read that an apiserver may answer with an older state.
    pub(crate) fn asked_for_the_past(&mut self, address: String) {
        self.old_reads.push(address);
    }

    /// The addresses of reads that may be answered with an older state, of all runs.
    pub fn old_reads(&self) -> &[String] {
        &self.old_reads
    }

    /// Notes an event of the run for the controller. Returns how the controller's view of the
    /// resource falls behind from now on, including this event.
    pub(crate) fn event(&mut self, resource: &str) -> Option<(Lag, &'static str)> {
        let number = self.events.entry(resource.to_owned()).or_default();
        *number += 1;
        let Fault::Unseen(at, lag, of) = self.fault else {
            return None;
        };
        let triggers = !self.triggered && of == resource && at == *number;
        self.triggered |= triggers;
        triggers.then_some((lag, of))
    }

    /// How many events have come for the controller so far, by resource; without events of lists.
    pub fn events(&self) -> &BTreeMap<String, usize> {
        &self.events
    }

    /// A write has arrived, of this life.
    pub(crate) fn admit(&mut self, life: usize, write: Write, body: Value) -> Decision {
        if self.dying == Some(life) {
            return Decision::Hold;
        }
        let mut is_renewal = false;
        if write.resource == PATHS {
            for (path, secret) in secrets(&body) {
                let before = self.secrets.insert(path, secret.clone());
                is_renewal |= before.is_some_and(|before| before != secret);
            }
        }
        if !is_of_run(&self.namespace, &write.namespace, &write.resource) {
            return Decision::Beside;
        }
        let index = self.entries.len();
        let number = index + 1 - self.renewals();
        self.entries.push(Entry {
            life,
            write,
            body,
            is_renewal,
            answer: None,
            arrived_by_then: 0,
        });
        // A controller that died of it at each start would never get further.
        if is_renewal {
            return Decision::Pass(index);
        }
        self.passed_in_life += 1;
        let dies = match self.fault {
            Fault::Each(Side::Before) => (self.passed_in_life == 2).then_some(Side::Before),
            Fault::Each(side) => Some(side),
            fault if fault.write() != Some(number) || self.triggered => None,
            Fault::One(_, side) | Fault::Paused(_, side) => Some(side),
            Fault::Stale(..) => Some(Side::Answered),
            Fault::Refused(_, refusal) => {
                self.triggered = true;
                return Decision::Refuse(index, refusal);
            }
            Fault::Lagging(_, lag, resource) => {
                self.triggered = true;
                return Decision::LagThenPass(index, lag, resource);
            }
            Fault::HandedOver(_, resource) => {
                self.triggered = true;
                return Decision::LastBeforeTheEnd(index, resource);
            }
            Fault::None | Fault::Unseen(..) => None,
        };
        let Some(side) = dies else {
            return Decision::Pass(index);
        };
        self.triggered = true;
        self.dying = Some(life);
        self.kills += usize::from(!self.only_pauses());
        Decision::Fatal(index, side)
    }

    /// The apiserver has answered.
    pub(crate) fn answered(&mut self, index: usize, code: u16) {
        let arrived = self.entries.len();
        if let Some(entry) = self.entries.get_mut(index) {
            entry.answer = Some(code);
            entry.arrived_by_then = arrived;
        }
    }

    /// The writes so far.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the fault was triggered.
    pub fn triggered(&self) -> bool {
        self.triggered
    }

    /// How often the controller was killed.
    pub fn kills(&self) -> usize {
        self.kills
    }

    /// The number of the life that began last.
    pub fn life(&self) -> usize {
        self.life
    }

    /// Whether the controller has sent requests in this life, has all its answers, and has sent
    /// nothing more for so long.
    pub fn rests_for(&self, time: Duration) -> bool {
        self.unanswered == 0 && self.last_request.is_some_and(|last| last.elapsed() >= time)
    }

    /// How many writes of this kind the apiserver has carried out.
    pub fn done(&self, method: &Method, resource: &str) -> usize {
        let such =
            |entry: &&Entry| entry.write.method == *method && entry.write.resource == resource;
        self.entries
            .iter()
            .filter(such)
            .filter(|entry| entry.is_done() && !entry.is_renewal)
            .count()
    }

    /// How many writes of [`PATHS`] in this run are not counted, because they brought other secret
    /// paths.
    pub fn renewals(&self) -> usize {
        self.entries.iter().filter(|entry| entry.is_renewal).count()
    }
}

/// The paths by which the webhooks of a configuration are called, each with the secret at its end.
fn secrets(configuration: &Value) -> impl Iterator<Item = (String, String)> {
    let webhooks = configuration["webhooks"].as_array();
    webhooks.into_iter().flatten().filter_map(|webhook| {
        let client = &webhook["clientConfig"];
        let called = client["service"]["path"].as_str();
        let (path, secret) = called.or(client["url"].as_str())?.rsplit_once('/')?;
        Some((path.to_owned(), secret.to_owned()))
    })
}

#[cfg(test)]
mod tests;
