//! `kubectl berth rollout status`: follows a rollout until it is done.

use std::pin::pin;
use std::time::Duration;

use anyhow::bail;
use berth_workload::objects::resource::PODS;
use clap::{ArgAction, Args};
use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watch_object};
use serde_json::Value;

use super::progress::{Progress, blocked, is_observed, progress};
use super::target::{ObjectArgs, Target};
use super::{at_partition, history};
use crate::exit::{Exit, sentence};
use crate::flags::duration;
use crate::objects::{namespace, selector, text};
use crate::session::Session;
use crate::text::clean;

/// How long after they did not agree with the status pods are read again. A change of pods need not
/// change the status, so the watch alone may never wake the command.
const REREAD: Duration = Duration::from_secs(5);

/// The object, and how long to follow it.
#[derive(Debug, Args)]
pub struct Status {
    /// The object.
    #[command(flatten)]
    pub object: ObjectArgs,
    /// Follow the rollout until it is done; `-w=false` prints its state once.
    #[arg(
        short,
        long,
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        action = ArgAction::Set
    )]
    pub watch: bool,
    /// How long to follow it, such as 5m; 0 sets no limit. Afterwards the exit code is 124.
    #[arg(long, default_value = "0", value_parser = duration)]
    pub timeout: Duration,
    /// Fail as soon as the object has another revision than this.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub revision: Option<i64>,
}

impl Status {
    /// Prints a line for each step, and ends with the rollout.
    ///
    /// # Errors
    /// The rollout failed, the object does not exist or is deleted, the user may not watch it, or
    /// the credentials are no longer accepted.
    pub async fn run(&self, session: &Session) -> anyhow::Result<Exit> {
        let target = Target::parse(&self.object.object)?;
        if self.revision.is_some() && !target.kind.has_history() {
            return Err(target
                .lacks("numbered revisions; leave out --revision")
                .into());
        }
        if self.timeout.is_zero() {
            return self.follow(session, &target).await;
        }
        match tokio::time::timeout(self.timeout, self.follow(session, &target)).await {
            Ok(ended) => ended,
            Err(_) => {
                anstream::eprintln!(
                    "error: {} is not rolled out within {:?}",
                    target.quoted(),
                    self.timeout
                );
                Ok(Exit::TimedOut)
            }
        }
    }

    async fn follow(&self, session: &Session, target: &Target) -> anyhow::Result<Exit> {
        // A missing object is an error with a remedy here, and a deletion later.
        let first = target.read(session).await?;
        let mut follower = Follower {
            session,
            target,
            revision: self.revision,
            uid: text(&first, "/metadata/uid").to_owned(),
            state: String::new(),
            blocked: String::new(),
            checked: String::new(),
            unsettled: None,
        };
        let is_done = follower.show(&first).await?;
        if is_done || !self.watch {
            return Ok(Exit::Done);
        }
        follower.follow().await
    }
}

/// What was printed so far about an object.
struct Follower<'a> {
    session: &'a Session,
    target: &'a Target,
    revision: Option<i64>,
    uid: String,
    /// The line that was printed last.
    state: String,
    /// The sentence of `Blocked` that was printed last.
    blocked: String,
    /// The update revision whose number was compared with `--revision`.
    checked: String,
    /// The object, while its status is at the end of the rollout and its pods are not.
    unsettled: Option<Value>,
}

impl Follower<'_> {
    async fn follow(&mut self) -> anyhow::Result<Exit> {
        let api = self.session.api(self.target.named.resource);
        let mut changes = pin!(watch_object(api, &self.target.name).default_backoff());
        let mut is_cut_off = false;
        loop {
            let change = match self.unsettled.take() {
                None => changes.next().await,
                Some(object) => match tokio::time::timeout(REREAD, changes.next()).await {
                    Ok(change) => change,
                    Err(_) if self.show(&object).await? => return Ok(Exit::Done),
                    Err(_) => continue,
                },
            };
            let Some(change) = change else {
                bail!("the watch of {} has ended", self.target.quoted());
            };
            match change {
                Ok(Some(object)) => {
                    is_cut_off = false;
                    let object = serde_json::to_value(object)?;
                    if text(&object, "/metadata/uid") != self.uid {
                        return Err(self.is_deleted());
                    }
                    if self.show(&object).await? {
                        return Ok(Exit::Done);
                    }
                }
                Ok(None) => return Err(self.is_deleted()),
                Err(error) => self.interruption(error, &mut is_cut_off)?,
            }
        }
    }

    fn is_deleted(&self) -> anyhow::Error {
        anyhow::anyhow!("{} was deleted", self.target.quoted())
    }

    /// Prints what is new, and returns whether the rollout is done.
    async fn show(&mut self, object: &Value) -> anyhow::Result<bool> {
        self.check_revision(object).await?;
        let (line, is_done) = match self.progress(object).await? {
            Progress::Done(line) => (line, true),
            Progress::Waiting(line) => (line, false),
            Progress::Failed(why) => bail!(why),
        };
        if line != self.state {
            anstream::println!("{}", clean(&line));
            self.state = line;
        }
        if is_done {
            return Ok(true);
        }
        // An older condition may be about the last spec.
        let blocked = blocked(object).filter(|_| is_observed(self.target.kind, object));
        let sentence = blocked.map(|(reason, message)| format!("{reason}: {message}"));
        let sentence = sentence.unwrap_or_default();
        if sentence != self.blocked && !sentence.is_empty() {
            anstream::println!("Blocked by {}", clean(&sentence));
        }
        self.blocked = sentence;
        Ok(false)
    }

    /// The state of the rollout, by the object and, where that does not suffice, its pods.
    async fn progress(&mut self, object: &Value) -> anyhow::Result<Progress> {
        let kind = self.target.kind;
        let by_status = progress(kind, object);
        if !matches!(by_status, Progress::Done(_)) || !at_partition::needs_pods(kind, object) {
            return Ok(by_status);
        }
        let selector = selector(object).unwrap_or_default();
        let pods = self
            .session
            .list(PODS, namespace(object), &selector)
            .await?;
        let by_pods = at_partition::unfinished_by_pods(kind, object, &pods);
        self.unsettled = by_pods.is_some().then(|| object.clone());
        Ok(by_pods.unwrap_or(by_status))
    }

    /// Compares the number of the update revision with `--revision`, once for each revision.
    async fn check_revision(&mut self, object: &Value) -> anyhow::Result<()> {
        let Some(wanted) = self.revision else {
            return Ok(());
        };
        let update = text(object, "/status/updateRevision");
        if update.is_empty() || update == self.checked || !is_observed(self.target.kind, object) {
            return Ok(());
        }
        let all = history::revisions(self.session, object).await?;
        match history::number_of(&all, update) {
            Some(number) if number != wanted => bail!(
                "{} is at revision {number}, not at revision {wanted}",
                self.target.quoted()
            ),
            Some(_) => update.clone_into(&mut self.checked),
            None => {}
        }
        Ok(())
    }

    /// Goes on after an error that may end by itself.
    fn interruption(&self, error: watcher::Error, is_cut_off: &mut bool) -> anyhow::Result<()> {
        let error = match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => error,
            // An expired resource version is routine: the watcher lists again.
            watcher::Error::WatchError(status) if status.code == 410 => return Ok(()),
            watcher::Error::WatchError(status) => kube::Error::Api(status),
            error @ watcher::Error::NoResourceVersion => return Err(error.into()),
        };
        if ends_for_good(&error) {
            return Err(error.into());
        }
        if !*is_cut_off {
            let why = sentence(&error.into());
            anstream::eprintln!("note: lost the watch, trying again: {why}");
            *is_cut_off = true;
        }
        Ok(())
    }
}

/// Whether no later request can succeed: the credentials or the rights are gone, or the kind is.
fn ends_for_good(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(refused) => matches!(refused.code, 401 | 403 | 404),
        kube::Error::Auth(_) => true,
        _ => false,
    }
}
