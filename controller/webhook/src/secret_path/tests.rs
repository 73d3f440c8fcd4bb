//! Which paths a replica answers to, alone and together with another one.

use proptest::prelude::*;

use super::*;

const KEY: &str = "key";
/// An apiserver uses a configuration that was replaced for less than this.
const LAG: Duration = Duration::from_secs(29);

fn path(number: u64) -> String {
    handler_path("/a", &Seed::new(KEY, number).text)
}

fn known(seeds: &Seeds, now: Instant) -> Vec<u64> {
    (0..30)
        .filter(|number| seeds.is_known(&path(*number), now))
        .collect()
}

#[test]
fn replaced_path_holds_30s_after_configurations_lose_it() {
    let (mut seeds, start) = (Seeds::default(), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    seeds.learn("", 9, start);
    assert!(
        seeds.newest.is_none()
            && known(&seeds, start).is_empty()
            && seeds.rotates_in(start).is_none()
    );
    seeds.learn(KEY, 9, start);
    seeds.look(&[path(9)], start);
    assert_eq!(
        known(&seeds, at(30)),
        (9..=17).collect::<Vec<_>>(),
        "none of before is in a configuration"
    );
    seeds.learn(KEY, 10, at(100));
    seeds.look(&[path(9), path(10)], at(100));
    assert!(
        seeds.is_known(&path(9), at(5_000)) && seeds.rotates_in(at(5_000)).is_none(),
        "no leader writes"
    );
    seeds.look(&[path(10)], at(5_000));
    for (seconds, holds) in [(5_029, true), (5_030, false)] {
        assert_eq!(seeds.is_known(&path(9), at(seconds)), holds, "{seconds}");
    }
    // A late replica has written it back.
    seeds.look(&[path(9)], at(5_020));
    assert!(seeds.is_known(&path(9), at(6_000)));
}

#[test]
fn seeds_rotate_at_start_by_time_and_after_a_refusal() {
    let rotates_in = |number: u64, is_restart: bool, refused: Option<u64>, seconds: u64| {
        let (mut seeds, start) = (Seeds::default(), Instant::now());
        seeds.learn(KEY, number, start);
        if !is_restart {
            seeds.learn(KEY, number + 1, start);
        }
        seeds.look(&[path(seeds.newest.as_ref().unwrap().number)], start);
        seeds.is_refused = refused.is_some_and(|at| at <= seconds);
        seeds
            .rotates_in(start + Duration::from_secs(seconds))
            .map(|left| left.as_secs())
    };
    for (number, is_restart, refused, seconds, expected) in [
        (3, true, None, 0, 0),
        // Replicas of an earlier build may still serve.
        (0, true, None, 0, 600),
        (3, false, None, 0, 600),
        (3, false, None, 599, 1),
        (3, false, None, 700, 0),
        (3, false, Some(0), 0, 60),
        (3, false, Some(10), 10, 50),
        (3, false, Some(70), 70, 0),
    ] {
        let found = rotates_in(number, is_restart, refused, seconds);
        assert_eq!(
            found,
            Some(expected),
            "{number} {is_restart} {refused:?} {seconds}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn flood_of_refusals_wakes_once_until_next_rotation() {
    let paths = SecretPath::default();
    let wake = paths.wake();
    let wakes = async || {
        tokio::time::timeout(Duration::from_secs(1), wake.notified())
            .await
            .is_ok()
    };
    for number in [3, 4] {
        paths.learn(KEY, number);
        for is_woken in [true, false, false] {
            paths.refused();
            assert_eq!(wakes().await, is_woken, "{number}");
        }
    }
}

#[test]
fn authority_change_keeps_the_path_of_the_one_before() {
    let (mut seeds, now) = (Seeds::default(), Instant::now());
    let of = |key| handler_path("/a", &Seed::new(key, 3).text);
    for key in ["one", "two", "three"] {
        seeds.learn(key, 3, now);
    }
    assert!(
        ["one", "two", "three"]
            .iter()
            .all(|key| seeds.is_known(&of(key), now))
    );
    seeds.look(&[of("three")], now);
    let later = now + HOLDS;
    assert_eq!(
        ["one", "two", "three"].map(|key| seeds.is_known(&of(key), later)),
        [false, false, true]
    );
}

#[test]
fn known_path_reveals_no_other_path() {
    let (mut seeds, now) = (Seeds::default(), Instant::now());
    seeds.learn(KEY, 3, now);
    let a = path(3);
    let end = a.strip_prefix("/a").unwrap();
    let seed = &seeds.newest.as_ref().unwrap().text;
    assert!(a.len() == 3 + 64 && seeds.is_known(&a, now) && !seeds.is_known(&a[..66], now));
    let of_earlier_build = hash(["berth: path of the webhook for disruptions\n", KEY]);
    for guess in [
        &format!("/b{end}"),
        end,
        &format!("/a/{seed}"),
        "",
        "/a",
        "/a/",
        &handler_path("/a", &of_earlier_build),
    ] {
        assert!(!seeds.is_known(guess, now), "{guess}");
    }
}

/// An event in the life of two replicas and the apiserver.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64),
    /// The replica makes a pass.
    Pass(usize),
    /// It reads the Secret.
    Read(usize),
    /// It writes paths by what it read last.
    Write(usize),
    Refuse(usize),
    /// The replica ends, and another one starts in its place.
    Restart(usize),
    /// The apiserver reaches the replica, but the replica does not reach the apiserver.
    CutOff(usize),
    Lead(Option<usize>),
}

struct Replica {
    seeds: Seeds,
    cut_off: Option<Instant>,
}

/// A configuration: each number that it had, and until when.
#[derive(Default)]
struct Configuration {
    number: u64,
    before: Vec<(u64, Instant)>,
}

impl Configuration {
    fn write(&mut self, number: u64, now: Instant) {
        if self.number != number {
            self.before.push((self.number, now));
            self.number = number;
        }
    }

    /// The numbers by which an apiserver may call.
    fn called(&self, now: Instant) -> impl Iterator<Item = u64> {
        let before = self
            .before
            .iter()
            .filter(move |(_, until)| now.saturating_duration_since(*until) <= LAG);
        before.map(|(number, _)| *number).chain([self.number])
    }
}

struct World {
    now: Instant,
    secret: u64,
    /// The first is written by every replica, the second by the leader alone.
    configurations: [Configuration; 2],
    replicas: [Replica; 2],
    leader: Option<usize>,
}

impl World {
    fn new() -> Self {
        let replica = || Replica {
            seeds: Seeds::default(),
            cut_off: None,
        };
        let configuration = || Configuration {
            number: 5,
            before: Vec::new(),
        };
        let configurations = [configuration(), configuration()];
        let now = Instant::now();
        let mut world = Self {
            now,
            secret: 5,
            configurations,
            replicas: [replica(), replica()],
            leader: Some(0),
        };
        (0..2).for_each(|at| world.pass(at));
        world.wait(60);
        world
    }

    fn wait(&mut self, mut seconds: u64) {
        // A replica that has not reached the apiserver for a minute is not ready. Watches make the
        // others read the changes.
        while seconds > 0 {
            let step = seconds.min(if seconds > 60 { 60 } else { 10 });
            self.now += Duration::from_secs(step);
            seconds -= step;
            for at in 0..2 {
                let cut_off = &mut self.replicas[at].cut_off;
                *cut_off = cut_off.filter(|since| {
                    self.now.saturating_duration_since(*since) < Duration::from_secs(60)
                });
                self.pass(at);
            }
            self.check();
        }
    }

    fn read(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        if replica.cut_off.is_none() {
            replica.seeds.learn(KEY, self.secret, self.now);
        }
    }

    fn write(&mut self, at: usize) {
        let replica = &self.replicas[at];
        if replica.cut_off.is_some() {
            return;
        }
        let Some(newest) = replica.seeds.newest.as_ref().map(|newest| newest.number) else {
            return;
        };
        self.configurations[0].write(newest, self.now);
        if self.leader == Some(at) {
            self.configurations[1].write(newest, self.now);
        }
    }

    fn pass(&mut self, at: usize) {
        for _ in 0..4 {
            self.read(at);
            self.write(at);
            let replica = &mut self.replicas[at];
            if replica.cut_off.is_some() {
                return;
            }
            let called: Vec<_> = self
                .configurations
                .iter()
                .map(|one| path(one.number))
                .collect();
            replica.seeds.look(&called, self.now);
            if replica.seeds.rotates_in(self.now) != Some(Duration::ZERO) {
                return;
            }
            self.secret += 1;
        }
    }

    fn befall(&mut self, event: &Event) {
        match *event {
            Event::Wait(seconds) => self.wait(seconds),
            Event::Pass(at) => self.pass(at),
            Event::Read(at) => self.read(at),
            Event::Write(at) => self.write(at),
            Event::Refuse(at) => self.replicas[at].seeds.is_refused = true,
            Event::Restart(at) => {
                self.leader = self.leader.filter(|leader| *leader != at);
                self.replicas[at] = Replica {
                    seeds: Seeds::default(),
                    cut_off: Some(self.now),
                };
                // It serves no call before it has read the Secret.
                self.wait(10);
                self.replicas[at].cut_off = None;
                self.pass(at);
            }
            Event::CutOff(at) => {
                self.replicas[at].cut_off = self.replicas[at].cut_off.or(Some(self.now))
            }
            Event::Lead(leader) => self.leader = leader,
        }
    }

    fn check(&self) {
        let serve = self
            .replicas
            .iter()
            .filter(|replica| replica.seeds.newest.is_some());
        for (replica, number) in serve.flat_map(|replica| {
            self.configurations
                .iter()
                .flat_map(|one| one.called(self.now))
                .map(move |n| (replica, n))
        }) {
            let newest = replica.seeds.newest.as_ref().map(|newest| newest.number);
            assert!(
                replica.seeds.is_known(&path(number), self.now),
                "a call by {number} is lost, the newest is {newest:?}"
            );
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let at = || 0_usize..2;
    prop_oneof![
        4 => (1_u64..700).prop_map(Event::Wait),
        4 => (1_u64..40).prop_map(Event::Wait),
        3 => at().prop_map(Event::Pass),
        2 => at().prop_map(Event::Read),
        2 => at().prop_map(Event::Write),
        3 => at().prop_map(Event::Refuse),
        2 => at().prop_map(Event::Restart),
        2 => at().prop_map(Event::CutOff),
        2 => prop_oneof![Just(None), at().prop_map(Some)].prop_map(Event::Lead),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn replicas_answer_every_call_and_forget_old_paths(events in prop::collection::vec(event(), 1..40)) {
        let mut world = World::new();
        let first = world.configurations[0].number;
        for event in &events {
            world.befall(event);
            world.check();
        }
        // There is a leader again and all replicas reach the apiserver: paths that were reported
        // must become invalid.
        world.leader = Some(0);
        let told = world.configurations[0].number.max(first);
        (0..2).for_each(|at| world.replicas[at].cut_off = None);
        world.wait(660);
        for replica in &world.replicas {
            prop_assert!(!replica.seeds.is_known(&path(told), world.now), "{told} is known after {events:?}");
        }
    }
}
