//! `get -w`: the tree as it changes, on the whole screen of a terminal, or as lines.

use std::io::IsTerminal;
use std::time::Duration;

use berth_controller::plugin::Explained;
use berth_runtime::client::Failed;
use berth_workload::objects::resource::PODS;
use futures::future::LocalBoxFuture;
use jiff::Timestamp;
use kube::runtime::watcher::Config;
use serde_json::{Value, json};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::health::{is_paused, rolling};
use super::output::print;
use super::plan::{Planner, split};
use super::render::{self, Line};
use super::screen::{Command, Screen};
use super::tone::Tone;
use super::tree;
use super::watched::{LOST, Watched};
use super::world::{World, pod_query, slim};
use crate::exit::{Exit, sentence};
use crate::kinds::NamedKind;
use crate::objects;
use crate::session::Session;
use crate::text;

/// The shortest time between two drawings.
const REDRAW: Duration = Duration::from_millis(200);
/// The shortest time between two plans.
const PLAN: Duration = Duration::from_secs(1);
/// The longest time for which a plan counts, though nothing of the workload changes.
const OLD_PLAN: Duration = Duration::from_secs(10);

/// The time between two plans while the apiserver does not answer.
const RETRY: Duration = Duration::from_secs(3);

/// A plan, and a world with the objects that change rarely.
type Read = (anyhow::Result<Explained>, anyhow::Result<World>);

/// What is shown, as it changes.
struct Live<'a> {
    session: &'a Session,
    kind: &'a NamedKind,
    name: &'a str,
    watched: Watched,
    world: World,
    plan: Option<Explained>,
    note: Option<String>,
    /// When the last plan began and ended.
    planned: (Instant, Instant),
    /// Whether the workload has changed since the last plan, and since it was last shown.
    is_changed: (bool, bool),
    /// Whether the watch of the pods has others than the world.
    has_new_pods: bool,
}

/// Shows the tree until the user ends it or the object is deleted.
///
/// # Errors
/// The object does not exist, the user may not read it, or the terminal fails.
pub async fn run(session: &Session, kind: &NamedKind, name: &str) -> anyhow::Result<Exit> {
    let world = World::read(session, kind, name).await?;
    let planner = Planner::new(session).await;
    let plan = planner.explain(session, world.plural, name).await;
    let now = Instant::now();
    let mut live = Live {
        session,
        kind,
        name,
        watched: watches(session, kind, name, &world),
        world,
        plan: None,
        note: None,
        planned: (now, now),
        is_changed: (false, true),
        has_new_pods: false,
    };
    live.take_plan(plan);
    if let Some(note) = &planner.note {
        text::note(note);
    }
    let is_screen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if is_screen {
        // Dropped before the last words, which would else go with the screen.
        let deleted = live.on_screen(&planner, Screen::open()?).await?;
        return Ok(live.end(deleted));
    }
    live.as_lines(&planner).await?;
    Ok(live.end(true))
}

/// The object's watch is the first, that of its pods the second.
fn watches(session: &Session, kind: &NamedKind, name: &str, world: &World) -> Watched {
    let mut watched = Watched::default();
    let own = Config::default().fields(&format!("metadata.name={name}"));
    watched.add(session.api(kind.resource), own, None);
    if let Some(query) = pod_query(world.plural, &world.object) {
        let pods = Config::default().labels(&query.labels);
        watched.add(session.api_in(PODS, &query.namespace), pods, Some(slim));
    }
    watched
}

impl Live<'_> {
    fn end(&self, deleted: bool) -> Exit {
        if !deleted {
            return Exit::Done;
        }
        anstream::eprintln!("{} {:?} is deleted", self.kind.singular(), self.name);
        Exit::Failed
    }

    /// Reads the plan, and what changes rarely.
    fn read<'b>(&mut self, planner: &'b Planner) -> LocalBoxFuture<'b, Read>
    where
        Self: 'b,
    {
        self.planned.0 = Instant::now();
        self.is_changed.0 = false;
        let plural = self.world.plural;
        let (session, name) = (self.session, self.name.to_owned());
        let mut world = World {
            plural,
            object: self.world.object.clone(),
            ..World::default()
        };
        Box::pin(async move {
            // At once, so that a lost connection shows after one time of `--request-timeout`.
            let plan = planner.explain(session, plural, &name);
            let (plan, rest) = futures::join!(plan, world.read_rest(session));
            (plan, rest.map(|()| world))
        })
    }

    fn take(&mut self, (plan, rest): Read) {
        if let Ok(rest) = rest {
            self.world.revisions = rest.revisions;
            self.world.jobs = rest.jobs;
            self.world.workloads = rest.workloads;
            self.world.refused = rest.refused;
        }
        self.take_plan(plan);
    }

    fn take_plan(&mut self, plan: anyhow::Result<Explained>) {
        // A quiet watch does not say that it goes on again, but an answer does.
        match &plan {
            Ok(_) => self.watched.trouble = None,
            Err(error) if is_lost(error) => self.watched.trouble = Some(LOST.to_owned()),
            Err(_) => {}
        }
        let (plan, failed) = split(plan);
        self.note = failed.filter(|_| self.watched.trouble.is_none());
        // The last plan stays while the apiserver does not answer.
        self.plan = plan.or_else(|| self.plan.take());
        self.planned.1 = Instant::now();
        self.is_changed.1 = true;
    }

    /// Whether it is time for the next plan. One that takes long, as with many pods, comes less
    /// often.
    fn is_plan_due(&self) -> bool {
        let (began, ended) = self.planned;
        let since = ended.elapsed();
        if self.watched.trouble.is_some() {
            return since >= RETRY;
        }
        let pause = PLAN.max(ended.saturating_duration_since(began) * 4);
        let again = self.plan.as_ref().and_then(|plan| plan.plan.look_again);
        let again = again.map_or(OLD_PLAN, |wait| wait.unsigned_abs().min(OLD_PLAN));
        since >= pause && (self.is_changed.0 || since >= again)
    }

    /// Takes the objects of a watch; returns true if the object is deleted.
    fn hear(&mut self, watch: usize) -> bool {
        self.is_changed = (true, true);
        let cache = self.watched.caches.get(watch);
        let Some(cache) = cache.filter(|cache| cache.is_complete) else {
            return false;
        };
        if watch > 0 {
            self.has_new_pods = true;
            return false;
        }
        let uid = objects::text(&self.world.object, "/metadata/uid");
        let own = cache
            .objects()
            .find(|one| objects::text(one, "/metadata/uid") == uid);
        match own {
            Some(own) => self.world.object = own.clone(),
            // An object that may not be watched stays as it was read.
            None => return !cache.is_refused,
        }
        false
    }

    /// Takes the pods of their watch. Only before they are shown, because a copy of 10,000 pods for
    /// each event would be slow.
    fn refresh(&mut self) {
        if let Some(pods) = self.watched.caches.get(1).filter(|_| self.has_new_pods) {
            self.world.pods = pods.objects().cloned().collect();
        }
        self.has_new_pods = false;
    }

    fn lines(&self, width: Option<usize>) -> Vec<Line> {
        let mut tree = tree::tree(&self.world, self.plan.as_ref(), Timestamp::now());
        let of_plan = self.note.iter().filter(|_| tree.tone != Tone::Good);
        for note in of_plan.chain(&self.watched.refused) {
            if !tree.notes.contains(note) {
                tree.notes.push(note.clone());
            }
        }
        render::lines(&tree, width)
    }

    /// Prints the tree again whenever it has changed, at most once a second. Returns when the
    /// object is deleted.
    async fn as_lines(&mut self, planner: &Planner) -> anyhow::Result<()> {
        let mut tick = interval(PLAN);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut shown, mut trouble) = (Vec::new(), None);
        let mut reading: Option<LocalBoxFuture<'_, Read>> = None;
        loop {
            tokio::select! {
                watch = self.watched.next() => if self.hear(watch?) { return Ok(()) },
                read = pending(&mut reading) => {
                    reading = None;
                    self.take(read);
                }
                _ = tick.tick() => {
                    if trouble != self.watched.trouble {
                        trouble.clone_from(&self.watched.trouble);
                        trouble.iter().for_each(|one| text::note(one));
                    }
                    if std::mem::take(&mut self.is_changed.1) {
                        self.refresh();
                        self.print_changed(&mut shown);
                    }
                }
            }
            if reading.is_none() && self.is_plan_due() {
                reading = Some(self.read(planner));
            }
        }
    }

    /// Prints the tree unless it differs from the last in ages only.
    fn print_changed(&self, shown: &mut Vec<tree::Row>) {
        let mut rows = tree::tree(&self.world, self.plan.as_ref(), Timestamp::now()).rows;
        rows.iter_mut().for_each(|row| row.age.clear());
        if rows == *shown {
            return;
        }
        if !shown.is_empty() {
            anstream::println!();
        }
        print(&self.lines(None));
        *shown = rows;
    }

    /// Draws the tree until the user ends it. Returns whether the object is deleted.
    async fn on_screen(&mut self, planner: &Planner, mut screen: Screen) -> anyhow::Result<bool> {
        let mut tick = interval(REDRAW);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut drawn = None::<Instant>;
        let mut reading: Option<LocalBoxFuture<'_, Read>> = None;
        loop {
            tokio::select! {
                watch = self.watched.next() => if self.hear(watch?) { return Ok(true) },
                read = pending(&mut reading) => {
                    reading = None;
                    self.take(read);
                }
                command = screen.command() => {
                    match command {
                        Command::Quit => return Ok(false),
                        Command::Pause => screen.say(self.pause().await),
                        Command::Redraw => {}
                    }
                    self.is_changed.1 = true;
                }
                _ = tick.tick() => {
                    let is_old = drawn.is_none_or(|drawn| drawn.elapsed() >= Duration::from_secs(1));
                    if std::mem::take(&mut self.is_changed.1) || is_old {
                        self.refresh();
                        let width = screen.width()?;
                        let trouble = self.watched.trouble.as_deref();
                        screen.draw(&self.lines(Some(width)), self.plan.as_ref(), trouble)?;
                        drawn = Some(Instant::now());
                    }
                }
            }
            if reading.is_none() && self.is_plan_due() {
                reading = Some(self.read(planner));
            }
        }
    }

    /// Pauses or resumes the rollout; returns a sentence about it.
    async fn pause(&self) -> String {
        let plural = self.world.plural;
        let paused = !is_paused(plural, &self.world.object);
        let Some(patch) = pause_patch(plural, paused) else {
            return format!("a {} has no field `paused`", self.kind.singular());
        };
        let word = if paused { "paused" } else { "resumed" };
        match self
            .session
            .patch(self.kind, self.name, &patch, false)
            .await
        {
            Ok(_) => format!("{} {word}", self.name),
            Err(error) => sentence(&error),
        }
    }
}

/// Whether a request got no answer.
fn is_lost(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let of_kube = cause.downcast_ref::<kube::Error>();
        let of_berth = cause.downcast_ref::<Failed>();
        of_kube.is_some_and(|cause| !matches!(cause, kube::Error::Api(_)))
            || of_berth.is_some_and(|cause| cause.code == 0)
            || cause.is::<Elapsed>()
    })
}

/// The merge patch of a kind's field `paused`; `None` for kinds without one.
pub fn pause_patch(plural: &str, paused: bool) -> Option<Value> {
    if plural == "uniteddeployments" {
        return None;
    }
    let fields = rolling(plural).split('/').skip(1).collect::<Vec<_>>();
    let inner = json!({ "paused": paused });
    Some(
        fields
            .iter()
            .rev()
            .fold(inner, |inner, field| json!({ *field: inner })),
    )
}

/// The result of a future, if there is one.
async fn pending<T>(of: &mut Option<LocalBoxFuture<'_, T>>) -> T {
    match of {
        Some(of) => of.await,
        None => std::future::pending().await,
    }
}
