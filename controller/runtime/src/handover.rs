//! The handover from one leader to the next: the new leader reconciles nothing before its stores
//! have seen the old leader's writes.
//!
//! Every write of the old leader ended before its lease did. So it is older than the version in
//! which the lease was given back, or otherwise the version in which this process took the lease. A
//! store has seen the write when its position has passed that version; in a process that starts
//! after the old one has ended, with its first list. The position of an unchanged resource may stay
//! the same for a minute. For such a resource, a leader that gives the lease back records the
//! version of the newest write that it has seen. Without this record one list returns the newest
//! version, which the store has seen already or sees soon.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Client;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{Failed, metadata};
use crate::election::{Leadership, Taken};
use crate::expectations::Expectations;
use crate::expectations::followed::Followee;
use crate::object::compare_versions;
use crate::store::{is_before, reaches};

/// How often a store's position is read.
const POLL: Duration = Duration::from_millis(10);
/// A store with this many objects gets events all the time, so that the handover waits a while
/// before a list.
const MANY: usize = 1000;
/// How long it waits before such a list.
const BEFORE_A_LIST_OF_MANY: Duration = Duration::from_millis(500);
/// The wait after a list that failed.
const RETRY: Duration = Duration::from_secs(1);
/// Objects per page: a page is in memory while it is read, with its managed fields.
const PAGE: usize = 100;

type Version = Option<Box<str>>;

/// Whether the stores have seen the writes of the leaders before this process.
#[derive(Debug, Clone)]
pub struct Handover {
    /// The lease as it was taken, and the version of the lease up to which the stores have seen
    /// everything. `None` without an election, because then no process led before.
    versions: Option<(watch::Receiver<Option<Taken>>, watch::Receiver<Version>)>,
}

impl Handover {
    /// For a process without an election, or one that reconciles nothing.
    pub fn without_election() -> Self {
        Self { versions: None }
    }

    #[cfg(test)]
    pub(crate) fn by_hand(taken: watch::Receiver<Option<Taken>>) -> (watch::Sender<Version>, Self) {
        let (sender, seen) = watch::channel(None);
        (
            sender,
            Self {
                versions: Some((taken, seen)),
            },
        )
    }

    /// True when the stores have seen all writes of earlier leaders, and this process leads.
    pub(crate) fn is_complete(&self) -> bool {
        let Some((taken, seen)) = &self.versions else {
            return true;
        };
        is_seen(&taken.borrow(), &seen.borrow())
    }

    /// Waits until the stores have seen all writes of earlier leaders. It returns only while this
    /// process leads, so that the caller must also wait for the end of leadership.
    pub async fn complete(&self) {
        let Some((mut taken, mut seen)) = self.versions.clone() else {
            return;
        };
        loop {
            if is_seen(&taken.borrow_and_update(), &seen.borrow_and_update()) {
                return;
            }
            let (of_lease, of_stores) = tokio::select! {
                changed = taken.changed() => (changed, Ok(())),
                changed = seen.changed() => (Ok(()), changed),
            };
            if of_lease.is_err() || of_stores.is_err() {
                // The election has ended, and this process will not lead any more.
                std::future::pending::<()>().await;
            }
        }
    }
}

fn is_seen(taken: &Option<Taken>, seen: &Version) -> bool {
    taken
        .as_ref()
        .is_some_and(|taken| Some(&taken.version) == seen.as_ref())
}

/// The handover state of a process, and the future that updates it until `stop`. Follow every store
/// first ([`Expectations::follow`]).
pub fn run(
    client: Client,
    leadership: &Leadership,
    expectations: Arc<Expectations>,
    stop: CancellationToken,
) -> (Handover, impl Future<Output = ()> + Send + 'static) {
    let (sender, seen) = watch::channel(None);
    let taken = leadership.taken();
    let handover = Handover {
        versions: taken.clone().map(|taken| (taken, seen)),
    };
    let watching = async move {
        let Some(mut taken) = taken else {
            return stop.cancelled().await;
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = catch_up_again_and_again(&client, &mut taken, &expectations, &sender) => {}
        }
    };
    (handover, watching)
}

async fn catch_up_again_and_again(
    client: &Client,
    taken: &mut watch::Receiver<Option<Taken>>,
    expectations: &Expectations,
    seen: &watch::Sender<Version>,
) {
    loop {
        let lease = taken.borrow_and_update().clone();
        let caught_up = async {
            let Some(lease) = lease else {
                return std::future::pending().await;
            };
            let began = Instant::now();
            // Includes resources that no leader writes. A leader that sees a NodeImage but not yet
            // its node would delete the NodeImage.
            let followed = expectations.followed().into_iter();
            let lister = Lister {
                client: client.clone(),
                turn: Semaphore::new(1),
            };
            let catch_up = async |followee: Followee| catch_up(&lister, &followee, &lease).await;
            join_all(followed.map(catch_up)).await;
            let millis = began.elapsed().as_millis();
            tracing::info!(millis, "the stores have seen what the leader before wrote");
            seen.send_replace(Some(lease.version));
            std::future::pending().await
        };
        tokio::select! {
            () = caught_up => {}
            changed = taken.changed() => if changed.is_err() {
                // The election has ended.
                return std::future::pending().await;
            },
        }
    }
}

/// Waits until a store has seen every write that is older than the lease, or the newest version
/// that the old leader recorded.
async fn catch_up(lister: &Lister, followee: &Followee, lease: &Taken) {
    let (store, kind, version) = (&followee.store, followee.resource.kind, &*lease.version);
    let recorded = lease.seen.get(followee.resource.plural);
    let mut list_at = Instant::now()
        + if store.len() > MANY {
            BEFORE_A_LIST_OF_MANY
        } else {
            Duration::ZERO
        };
    let (mut newest, mut last): (Option<Box<str>>, Option<Box<str>>) = (None, None);
    loop {
        if let Some(position) = store.position() {
            // The server's history went backwards, so that the newest object may never have
            // existed.
            if last.is_some_and(|last| is_before(&position, &last)) {
                newest = None;
            }
            last = Some(position.clone());
            if recorded.is_some_and(|recorded| reaches(&position, recorded)) {
                return;
            }
            if has_passed(&position, version)
                || newest
                    .as_deref()
                    .is_some_and(|newest| has_passed(&position, newest))
            {
                return;
            }
            if newest.is_none() && Instant::now() >= list_at {
                let passes_by_now = || {
                    store
                        .position()
                        .is_some_and(|position| has_passed(&position, version))
                };
                match lister.newest_version(followee, passes_by_now).await {
                    Ok(found) => newest = Some(found),
                    Err(failed) => {
                        tracing::warn!(kind, error = %failed, "cannot list what the leader before may have written");
                        list_at = Instant::now() + RETRY;
                    }
                }
                continue;
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Versions that cannot be compared belong to two histories, so that waiting would never end.
fn has_passed(position: &str, version: &str) -> bool {
    reaches(position, version) || compare_versions(position, version).is_none()
}

/// Lists one resource at a time, on the connection of the lease, because a handshake takes longer
/// than a list.
struct Lister {
    client: Client,
    turn: Semaphore,
}

impl Lister {
    /// The version of the newest object. Deleted objects have none: a pod that the store still has
    /// is deleted again, which changes nothing, or is replaced later. Once `is_needless` is true,
    /// no further page is read.
    async fn newest_version(
        &self,
        followee: &Followee,
        is_needless: impl Fn() -> bool,
    ) -> Result<Box<str>, Failed> {
        let _turn = self.turn.acquire().await;
        let (mut newest, limit): (Box<str>, _) = ("0".into(), PAGE.to_string());
        let mut next: Box<str> = "".into();
        loop {
            let parameters = [("limit", &*limit), ("continue", &*next)];
            let page = match metadata::page(&self.client, &followee.resource, "", &parameters).await
            {
                Ok(page) => page,
                // The server does not know the kind, so that it has no objects.
                Err(failed) if failed.code == 404 => return Ok(newest),
                Err(failed) => return Err(failed),
            };
            for version in page.versions {
                if is_before(&newest, &version) {
                    newest = version;
                }
            }
            next = page.next;
            if next.is_empty() || is_needless() {
                return Ok(newest);
            }
        }
    }
}

#[cfg(test)]
mod tests;
