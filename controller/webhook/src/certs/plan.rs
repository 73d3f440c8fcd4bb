//! The next step for the certificates: a function of the time, of the stored material and of the
//! published authorities.
//!
//! The order keeps every handshake good at every instant: an authority is published in all
//! caBundles before anything signed by it is served, and it leaves them only when nothing signed by
//! it is served any more.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

/// The settings of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long an authority is valid.
    pub ca_validity: SignedDuration,
    /// How long a serving certificate is valid; the authority's end cuts it.
    pub cert_validity: SignedDuration,
    /// DNS names and IP addresses that the serving certificate must carry.
    pub names: BTreeSet<String>,
}

/// The longest wait between the publication of an authority and the first certificate from it,
/// because some apiservers and daemons get it late (a mounted ConfigMap takes the kubelet a minute
/// or two).
const SETTLE_MAX: SignedDuration = SignedDuration::from_mins(10);
/// The longest time for which the old authority stays after the first certificate of the new one.
const OVERLAP_MAX: SignedDuration = SignedDuration::from_hours(1);
/// The furthest that a certificate's beginning is dated back: the clock that issues it may be this
/// far ahead of the clocks of its clients.
const BACKDATE_MAX: SignedDuration = SignedDuration::from_hours(24);

impl Policy {
    /// How long an authority must have been published before it signs served certificates.
    pub fn settle(&self) -> SignedDuration {
        (self.cert_validity / 20).min(SETTLE_MAX)
    }

    /// How old a new authority's certificate must be before the old authority goes.
    pub fn overlap(&self) -> SignedDuration {
        (self.cert_validity / 6).min(OVERLAP_MAX)
    }

    /// How far the beginning of a certificate that is valid for `validity` is dated back.
    pub fn backdate(validity: SignedDuration) -> SignedDuration {
        validity.min(BACKDATE_MAX)
    }

    /// How long a serving certificate can be valid.
    fn leaf_validity(&self) -> SignedDuration {
        self.cert_validity.min(self.ca_validity)
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
    /// When it is time for a successor: a third of the life before the end. A certificate that is
    /// made for `validity` lives no longer than that: the time by which it is dated back does not
    /// count.
    pub fn due(&self, validity: SignedDuration) -> Timestamp {
        let life = self.not_after.duration_since(self.not_before).min(validity);
        self.not_after
            .checked_sub(life / 3)
            .unwrap_or(self.not_after)
    }

    fn over(&self, now: Timestamp) -> bool {
        now >= self.not_after
    }

    /// Whether it is valid already. A replica whose clock is far ahead makes certificates that
    /// others must not serve yet.
    pub fn has_begun(&self, now: Timestamp) -> bool {
        now >= self.not_before
    }
}

/// A serving certificate as the plan sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// When it is valid.
    pub span: Span,
    /// The index of the stored authority that signed it; `None` if none did, or its key belongs to
    /// another certificate.
    pub issuer: Option<usize>,
    /// The names that it carries.
    pub names: BTreeSet<String>,
}

/// The content of the Secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stored {
    /// The authorities, newest first.
    pub authorities: Vec<Span>,
    /// Whether the stored key is the newest authority's.
    pub can_sign: bool,
    /// The serving certificate, if there is a readable one.
    pub leaf: Option<Leaf>,
}

impl Stored {
    /// Whether this certificate and the authority that signed it are valid now.
    fn is_valid(&self, leaf: &Leaf, now: Timestamp) -> bool {
        let authority = leaf.issuer.and_then(|issuer| self.authorities.get(issuer));
        authority.is_some_and(|authority| authority.has_begun(now))
            && leaf.span.has_begun(now)
            && !leaf.span.over(now)
    }
}

/// A change to the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Make everything anew: nothing stored is of use.
    Begin,
    /// Put a new authority in front of the others; the served certificate stays.
    AddAuthority,
    /// Serve a new certificate, signed by the newest authority.
    IssueLeaf,
    /// Drop every authority but the newest.
    DropOldAuthorities,
}

/// The change, its reason, and when to look again.
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
/// `published_since` is the time since when every place that clients trust has been seen to hold
/// exactly the stored authorities, `None` while one does not.
pub fn plan(
    now: Timestamp,
    stored: &Stored,
    published_since: Option<Timestamp>,
    policy: &Policy,
) -> Plan {
    let act = |change, reason| Plan {
        change: Some(change),
        reason,
        look_again: now,
    };
    let (newest, leaf) = match working(now, stored) {
        Ok(working) => working,
        Err((change, reason)) => return act(change, reason),
    };
    let newest_due = newest.due(policy.ca_validity);
    if now >= newest_due {
        return act(Change::AddAuthority, "the authority ends soon");
    }
    if let Some(reason) = leaf_due(now, leaf, policy) {
        let ready_at = published_since.and_then(|since| since.checked_add(policy.settle()).ok());
        return match ready_at {
            Some(ready_at) if now >= ready_at => act(Change::IssueLeaf, reason),
            Some(ready_at) => Plan {
                change: None,
                reason: "the newest authority was published just now",
                look_again: ready_at,
            },
            None => Plan {
                change: None,
                reason: "the newest authority is not published everywhere",
                look_again: newest_due,
            },
        };
    }
    let next = newest_due.min(leaf.span.due(policy.leaf_validity()));
    if stored.authorities.len() > 1 {
        let age = Policy::backdate(policy.cert_validity) + policy.overlap();
        let droppable = leaf.span.not_before.checked_add(age).unwrap_or(now);
        if now >= droppable {
            return act(
                Change::DropOldAuthorities,
                "nothing signed by the old authority is served any more",
            );
        }
        return Plan {
            change: None,
            reason: "the old authority stays for a while",
            look_again: next.min(droppable),
        };
    }
    Plan {
        change: None,
        reason: "all certificates are good",
        look_again: next,
    }
}

/// The newest authority and the serving certificate that works now; otherwise the change that makes
/// them, and why.
fn working(now: Timestamp, stored: &Stored) -> Result<(&Span, &Leaf), (Change, &'static str)> {
    let Some(newest) = stored.authorities.first() else {
        return Err((Change::Begin, "there are no usable certificates yet"));
    };
    if newest.over(now) {
        return Err((Change::Begin, "the authority has expired"));
    }
    if !newest.has_begun(now) {
        return Err((
            Change::AddAuthority,
            "the newest authority is not valid yet: a replica's clock is, or was, wrong",
        ));
    }
    let leaf = stored.leaf.as_ref();
    match leaf.filter(|leaf| stored.is_valid(leaf, now)) {
        Some(leaf) if stored.can_sign => Ok((newest, leaf)),
        Some(_) => Err((
            Change::AddAuthority,
            "the newest authority's key is missing",
        )),
        None if stored.can_sign => Err((
            Change::IssueLeaf,
            "no serving certificate is there that is valid now",
        )),
        None => Err((
            Change::Begin,
            "neither a working certificate nor the key to sign one is there",
        )),
    }
}

/// Why a working leaf needs a successor from the newest authority; `None` if it needs none.
fn leaf_due(now: Timestamp, leaf: &Leaf, policy: &Policy) -> Option<&'static str> {
    if leaf.issuer != Some(0) {
        return Some("a newer authority is published");
    }
    if !policy.names.is_subset(&leaf.names) {
        return Some("the serving certificate lacks a name");
    }
    (now >= leaf.span.due(policy.leaf_validity())).then_some("the serving certificate ends soon")
}
