//! What to do with the certificates now: a function of the time, of what is stored and of what is published.
//!
//! The order keeps every handshake good at every instant: an authority is published in all caBundles before anything
//! signed by it is served, and it leaves them only when nothing signed by it is served any more.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// How certificates are to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long an authority is valid.
    pub ca_validity: SignedDuration,
    /// How long a serving certificate is valid; the authority's end cuts it.
    pub cert_validity: SignedDuration,
    /// DNS names and IP addresses that the serving certificate must carry.
    pub names: BTreeSet<String>,
}

/// The longest wait between the publication of an authority and the first certificate from it: for apiservers and
/// daemons that learn of it late (a mounted ConfigMap takes the kubelet a minute or two).
const SETTLE_MAX: SignedDuration = SignedDuration::from_mins(10);
/// The longest time for which the old authority stays after the first certificate of the new one.
const OVERLAP_MAX: SignedDuration = SignedDuration::from_hours(1);
/// The furthest that a certificate's beginning is dated back, for clocks that lag behind.
const BACKDATE_MAX: SignedDuration = SignedDuration::from_mins(5);

impl Policy {
    /// How long an authority must have been published before it signs what is served.
    pub fn settle(&self) -> SignedDuration {
        (self.cert_validity / 20).min(SETTLE_MAX)
    }

    /// How old (from its backdated beginning) a new authority's certificate must be before the old authority goes.
    pub fn overlap(&self) -> SignedDuration {
        (self.cert_validity / 6).min(OVERLAP_MAX)
    }

    /// How far the beginning of something valid for `validity` is dated back.
    pub fn backdate(validity: SignedDuration) -> SignedDuration {
        (validity / 30).min(BACKDATE_MAX)
    }
}

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first instant.
    pub not_before: Timestamp,
    /// The last instant.
    pub not_after: Timestamp,
}

impl Span {
    /// When it is time for a successor: a third of the life before the end.
    pub fn due(&self) -> Timestamp {
        let life = self.not_after.duration_since(self.not_before);
        self.not_after.checked_sub(life / 3).unwrap_or(self.not_after)
    }

    fn over(&self, now: Timestamp) -> bool {
        now >= self.not_after
    }
}

/// A serving certificate as the plan sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// When it is valid.
    pub span: Span,
    /// Which of the stored authorities signed it; `None`: none of them, or its key is another's.
    pub issuer: Option<usize>,
    /// The names that it carries.
    pub names: BTreeSet<String>,
}

/// What the Secret holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stored {
    /// The authorities, newest first.
    pub authorities: Vec<Span>,
    /// Whether the stored key is the newest authority's.
    pub can_sign: bool,
    /// The serving certificate, if there is a readable one.
    pub leaf: Option<Leaf>,
}

/// A change to the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Make everything anew: nothing stored is of use.
    Begin,
    /// Put a new authority in front of the others; what is served stays.
    AddAuthority,
    /// Serve a new certificate, signed by the newest authority.
    IssueLeaf,
    /// Drop every authority but the newest.
    DropOldAuthorities,
}

/// What to do, why, and when to look again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The change to make to the Secret, if any.
    pub change: Option<Change>,
    /// Why, for the log.
    pub reason: &'static str,
    /// When the next change may be due, if nothing else happens.
    pub look_again: Timestamp,
}

/// Decides on the next change.
///
/// `published_since` is the time since when everything that trusts us has been seen to hold exactly the stored
/// authorities, `None` while it does not.
pub fn plan(now: Timestamp, stored: &Stored, published_since: Option<Timestamp>, policy: &Policy) -> Plan {
    let act = |change, reason| Plan { change: Some(change), reason, look_again: now };
    let Some(newest) = stored.authorities.first() else {
        return act(Change::Begin, "there are no usable certificates yet");
    };
    if newest.over(now) {
        return act(Change::Begin, "the authority has expired");
    }
    let working = stored.leaf.as_ref().filter(|leaf| leaf.issuer.is_some() && !leaf.span.over(now));
    if !stored.can_sign {
        return match working {
            Some(_) => act(Change::AddAuthority, "the newest authority's key is missing"),
            None => act(Change::Begin, "neither a working certificate nor the key to sign one is there"),
        };
    }
    let Some(leaf) = working else {
        return act(Change::IssueLeaf, "no working serving certificate is there");
    };
    if now >= newest.due() {
        return act(Change::AddAuthority, "the authority ends soon");
    }
    if let Some(reason) = leaf_due(now, leaf, policy) {
        let ready_at = published_since.and_then(|since| since.checked_add(policy.settle()).ok());
        return match ready_at {
            Some(ready_at) if now >= ready_at => act(Change::IssueLeaf, reason),
            Some(ready_at) => {
                Plan { change: None, reason: "the newest authority was published just now", look_again: ready_at }
            }
            None => Plan {
                change: None,
                reason: "the newest authority is not published everywhere",
                look_again: newest.due(),
            },
        };
    }
    let next = newest.due().min(leaf.span.due());
    if stored.authorities.len() > 1 {
        let droppable = leaf.span.not_before.checked_add(policy.overlap()).unwrap_or(now);
        if now >= droppable {
            return act(Change::DropOldAuthorities, "nothing signed by the old authority is served any more");
        }
        return Plan { change: None, reason: "the old authority stays for a while", look_again: next.min(droppable) };
    }
    Plan { change: None, reason: "all certificates are good", look_again: next }
}

/// Why a working leaf should be followed by another from the newest authority, if it should.
fn leaf_due(now: Timestamp, leaf: &Leaf, policy: &Policy) -> Option<&'static str> {
    if leaf.issuer != Some(0) {
        return Some("a newer authority is published");
    }
    if !policy.names.is_subset(&leaf.names) {
        return Some("the serving certificate lacks a name");
    }
    (now >= leaf.span.due()).then_some("the serving certificate ends soon")
}
