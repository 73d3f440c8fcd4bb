//! The writes of a case, and at which of them the controller dies.

use std::fmt;

use http::Method;
use serde_json::Value;
use tokio::time::Instant;

use crate::write::Write;

/// On which side of a write the controller dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The write never reaches the apiserver.
    Before,
    /// The apiserver carries it out, and its answer never reaches the controller.
    After,
}

/// When the controller dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Never.
    None,
    /// Once, at this write, counted from 1.
    One(usize, Side),
    /// Again and again. Before: every life but the last has one write, and ends at its second. After: every life but
    /// the last has one write, whose answer it never sees.
    Each(Side),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |side: &Side| match side {
            Side::Before => "before",
            Side::After => "after",
        };
        match self {
            Fault::None => write!(f, "undisturbed"),
            Fault::One(number, at) => write!(f, "killed {} write {number}", side(at)),
            Fault::Each(at) => write!(f, "killed {} each write", side(at)),
        }
    }
}

/// A write that the controller sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// In which of the controller's lives, counted from 1 since the first one of all.
    pub life: usize,
    /// What.
    pub write: Write,
    /// Its content; null when that is not JSON.
    pub body: Value,
    /// The apiserver's answer as an HTTP status; none when the write was held back, or has no answer yet.
    pub answer: Option<u16>,
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

/// What becomes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passes and is not counted.
    Beside,
    /// It passes; its answer is to be entered under this index.
    Pass(usize),
    /// It passes, and when the apiserver has answered the controller dies.
    PassThenKill(usize),
    /// The controller dies now.
    Kill,
    /// The controller is about to die: nothing more of it reaches the apiserver.
    Hold,
}

/// The writes of a case, in the order in which they arrived.
#[derive(Debug)]
pub struct Ledger {
    namespace: String,
    fault: Fault,
    entries: Vec<Entry>,
    life: usize,
    passed_in_life: usize,
    dying: bool,
    kills: usize,
    last_request: Option<Instant>,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger {
            namespace: String::new(),
            fault: Fault::None,
            entries: Vec::new(),
            life: 0,
            passed_in_life: 0,
            dying: false,
            kills: 0,
            last_request: None,
        }
    }

    /// Begins a case in this namespace.
    pub(crate) fn begin(&mut self, namespace: &str, fault: Fault) {
        namespace.clone_into(&mut self.namespace);
        self.fault = fault;
        self.entries.clear();
        self.passed_in_life = 0;
        self.kills = 0;
    }

    /// Begins another life of the controller; gives its number.
    pub(crate) fn begin_life(&mut self) -> usize {
        self.life += 1;
        self.passed_in_life = 0;
        self.dying = false;
        self.last_request = None;
        self.life
    }

    /// Notes a request of any kind.
    pub(crate) fn requested(&mut self, at: Instant) {
        self.last_request = Some(at);
    }

    /// A write has arrived.
    pub(crate) fn admit(&mut self, write: Write, body: Value) -> Verdict {
        if self.dying {
            return Verdict::Hold;
        }
        if !write.namespace.is_empty() && write.namespace != self.namespace {
            return Verdict::Beside;
        }
        let index = self.entries.len();
        self.entries.push(Entry { life: self.life, write, body, answer: None });
        let (fatal, side) = match self.fault {
            Fault::None => (false, Side::Before),
            Fault::One(number, side) => (index + 1 == number, side),
            Fault::Each(Side::Before) => (self.passed_in_life == 1, Side::Before),
            Fault::Each(Side::After) => (true, Side::After),
        };
        self.passed_in_life += 1;
        if !fatal {
            return Verdict::Pass(index);
        }
        self.dying = true;
        self.kills += 1;
        match side {
            Side::Before => Verdict::Kill,
            Side::After => Verdict::PassThenKill(index),
        }
    }

    /// The apiserver has answered.
    pub(crate) fn answered(&mut self, index: usize, code: u16) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.answer = Some(code);
        }
    }

    /// The writes so far.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How often the controller was killed.
    pub fn kills(&self) -> usize {
        self.kills
    }

    /// The number of the controller's present life.
    pub fn life(&self) -> usize {
        self.life
    }

    /// When the controller last asked the apiserver for anything; none when it has not yet in this life.
    pub fn last_request(&self) -> Option<Instant> {
        self.last_request
    }

    /// How many writes of this kind the apiserver has carried out.
    pub fn done(&self, method: &Method, resource: &str) -> usize {
        let such = |entry: &&Entry| entry.write.method == *method && entry.write.resource == resource;
        self.entries.iter().filter(such).filter(|entry| entry.is_done()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(namespace: &str) -> Write {
        let resource = "pods".to_owned();
        Write { method: Method::POST, resource, namespace: namespace.to_owned(), name: String::new() }
    }

    /// What becomes of writes until the controller dies, or `most` have passed.
    fn life(ledger: &mut Ledger, most: usize) -> Vec<Verdict> {
        ledger.begin_life();
        let mut verdicts = Vec::new();
        while verdicts.len() < most && !ledger.dying {
            verdicts.push(ledger.admit(write("a"), Value::Null));
        }
        verdicts
    }

    #[test]
    fn one_write_is_fatal_once() {
        use Verdict::{Hold, Kill, Pass, PassThenKill};
        for (side, fatal) in [(Side::Before, Kill), (Side::After, PassThenKill(1))] {
            let mut ledger = Ledger::new();
            ledger.begin("a", Fault::One(2, side));
            assert_eq!(life(&mut ledger, 9), [Pass(0), fatal]);
            assert_eq!(ledger.admit(write("a"), Value::Null), Hold);
            assert_eq!(life(&mut ledger, 3), [Pass(2), Pass(3), Pass(4)]);
            assert_eq!(ledger.kills(), 1);
        }
    }

    #[test]
    fn each_life_makes_progress() {
        use Verdict::{Kill, Pass, PassThenKill};
        let mut ledger = Ledger::new();
        ledger.begin("a", Fault::Each(Side::Before));
        assert_eq!(life(&mut ledger, 9), [Pass(0), Kill]);
        assert_eq!(life(&mut ledger, 9), [Pass(2), Kill]);
        ledger.begin("a", Fault::Each(Side::After));
        assert_eq!(life(&mut ledger, 9), [PassThenKill(0)]);
        assert_eq!(life(&mut ledger, 9), [PassThenKill(1)]);
    }

    #[test]
    fn what_others_own_is_beside() {
        let mut ledger = Ledger::new();
        ledger.begin("a", Fault::One(1, Side::Before));
        ledger.begin_life();
        assert_eq!(ledger.admit(write("b"), Value::Null), Verdict::Beside);
        assert_eq!(ledger.admit(write(""), Value::Null), Verdict::Kill, "what has no namespace belongs to the case");
    }

    #[test]
    fn only_what_succeeded_is_done() {
        let mut ledger = Ledger::new();
        ledger.begin("a", Fault::None);
        for answer in [Some(201), Some(409), None] {
            let Verdict::Pass(index) = ledger.admit(write("a"), Value::Null) else { panic!("it must pass") };
            answer.into_iter().for_each(|code| ledger.answered(index, code));
        }
        assert_eq!(ledger.done(&Method::POST, "pods"), 1);
        assert_eq!(ledger.done(&Method::DELETE, "pods"), 0);
    }
}
