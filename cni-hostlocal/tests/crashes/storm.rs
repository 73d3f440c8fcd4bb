//! Random calls at once, a part of them killed at a random moment.

use std::{
    collections::HashMap,
    env,
    io::{Read as _, Write as _},
    sync::{
        Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::plugin::{Asked, Namespace, OURS, Plugin, asked, given};

const CALLERS: u64 = 8;

/// The addresses that were given and not yet released, as the callers know them.
#[derive(Default)]
struct Known {
    /// The container of each address.
    holders: Mutex<HashMap<String, String>>,
    /// Addresses that two containers had.
    twice: Mutex<Vec<String>>,
    /// A GC runs alone, as the specification requires.
    running: RwLock<()>,
    calls: AtomicU64,
    /// About how long a call takes, in microseconds: kills happen at any moment of it.
    takes: AtomicU64,
    killed: AtomicU64,
}

/// One caller's pods; a container is only ever called for by one caller.
struct Caller<'a> {
    plugin: &'a Plugin,
    known: &'a Known,
    random: fastrand::Rng,
    number: u64,
    made: u64,
    /// Containers that hold addresses, with their pods.
    held: Vec<(String, Option<String>, Vec<String>)>,
    /// Containers whose last call was killed: their addresses are not known.
    doubtful: Vec<(String, Option<String>)>,
}

impl Caller<'_> {
    /// Calls, and kills one call of four. `None`: it was killed.
    fn call(&mut self, asked: &Asked) -> Option<Result<Vec<String>, String>> {
        self.known.calls.fetch_add(1, Ordering::Relaxed);
        let kill = self.random.u8(0..4) == 0;
        if !kill {
            let begun = Instant::now();
            let answer = self.plugin.call(asked);
            let time = u64::try_from(begun.elapsed().as_micros()).unwrap();
            let takes = self.known.takes.load(Ordering::Relaxed);
            self.known
                .takes
                .store((15 * takes + time) / 16, Ordering::Relaxed);
            return Some(answer);
        }
        let (mut child, input) = self.plugin.start(asked);
        _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let until = Instant::now()
            + Duration::from_micros(
                self.random
                    .u64(0..1000 + self.known.takes.load(Ordering::Relaxed) * 3 / 2),
            );
        while Instant::now() < until {
            thread::sleep(Duration::from_micros(50));
        }
        let _ = child.kill();
        let status = child.wait().unwrap();
        let mut text = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        match status.code() {
            Some(0) => Some(Ok(given(&text))),
            Some(_) => Some(Err(text)),
            None => {
                self.known.killed.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn step(&mut self) {
        let known = self.known;
        let _running = known.running.read().unwrap();
        match self.random.u8(0..10) {
            // A runtime deletes attachments of unknown state before anything else.
            _ if !self.doubtful.is_empty() && self.random.u8(0..3) > 0 => {
                let which = self.random.usize(..self.doubtful.len());
                let (container, pod) = self.doubtful[which].clone();
                if let Some(Ok(_)) = self.call(&asked("DEL", &container, pod.as_deref())) {
                    self.doubtful.swap_remove(which);
                }
            }
            0..=4 if self.held.len() < 24 => self.add(),
            5..=7 if !self.held.is_empty() => {
                let (container, pod, addresses) =
                    self.held.swap_remove(self.random.usize(..self.held.len()));
                let mut holders = known.holders.lock().unwrap();
                for address in &addresses {
                    holders.remove(address);
                }
                drop(holders);
                match self.call(&asked("DEL", &container, pod.as_deref())) {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => panic!("DEL failed: {error}"),
                    None => self.doubtful.push((container, pod)),
                }
            }
            8 if !self.held.is_empty() => {
                let (container, pod, _) = self.held[self.random.usize(..self.held.len())].clone();
                if let Some(Err(error)) = self.call(&asked("CHECK", &container, pod.as_deref())) {
                    known
                        .twice
                        .lock()
                        .unwrap()
                        .push(format!("{container} lost its address: {error}"));
                }
            }
            _ => {
                let unknown = format!("unknown{}", self.number);
                _ = self.call(&asked("DEL", &unknown, None));
            }
        }
    }

    fn add(&mut self) {
        self.made += 1;
        let container = format!("c{}-{}", self.number, self.made);
        // Half of the containers are of pods that come back, under one name at a time.
        let pod = Some(format!("web{}-{}", self.number, self.random.u8(0..6))).filter(|pod| {
            self.random.bool()
                && !self
                    .held
                    .iter()
                    .any(|(_, other, _)| other.as_ref() == Some(pod))
                && !self
                    .doubtful
                    .iter()
                    .any(|(_, other)| other.as_ref() == Some(pod))
        });
        match self.call(&asked("ADD", &container, pod.as_deref())) {
            Some(Ok(addresses)) => {
                let mut holders = self.known.holders.lock().unwrap();
                for address in &addresses {
                    if let Some(other) = holders.insert(address.clone(), container.clone()) {
                        self.known
                            .twice
                            .lock()
                            .unwrap()
                            .push(format!("{address}: {other} and {container}"));
                    }
                }
                drop(holders);
                self.held.push((container, pod, addresses));
            }
            Some(Err(error)) => assert!(error.contains("no IP addresses available"), "{error}"),
            None => self.doubtful.push((container, pod)),
        }
    }
}

/// Runs `calls` calls, and returns the faults that it finds afterwards.
fn storm(program: &str, calls: u64, with_gc: bool) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let namespace = Namespace::new();
    let mut plugin = Plugin::new(&directory.path().join("networks"), &namespace.path());
    plugin.program = program.into();
    plugin.ranges = serde_json::json!([[{"subnet": "10.1.0.0/24"}], [{"subnet": "2001:db8::/64"}]]);
    let known = Known::default();
    let held = Mutex::new(Vec::new());
    let begun = Instant::now();
    thread::scope(|scope| {
        for number in 0..CALLERS {
            let (plugin, known, held) = (&plugin, &known, &held);
            scope.spawn(move || {
                let random = fastrand::Rng::with_seed(number);
                let mut caller = Caller {
                    plugin,
                    known,
                    random,
                    number,
                    made: 0,
                    held: Vec::new(),
                    doubtful: Vec::new(),
                };
                while known.calls.load(Ordering::Relaxed) < calls {
                    caller.step();
                    if with_gc && number == 0 && caller.random.u16(0..100) == 0 {
                        // A container without a known address is garbage: the doubtful containers
                        // of all callers.
                        let _alone = known.running.write().unwrap();
                        let valid: Vec<_> =
                            known.holders.lock().unwrap().values().cloned().collect();
                        let gc = Asked {
                            valid,
                            ..asked("GC", "", None)
                        };
                        if let Some(Err(error)) = caller.call(&gc) {
                            panic!("GC failed: {error}");
                        }
                    }
                }
                held.lock().unwrap().extend(caller.held);
            });
        }
    });
    let held = held.into_inner().unwrap();
    let (called, killed) = (
        known.calls.load(Ordering::Relaxed),
        known.killed.load(Ordering::Relaxed),
    );
    let seconds = begun.elapsed().as_secs_f64();
    let malformed = plugin.malformed();
    let before = plugin.holders().len();
    let mut wrong = known.twice.into_inner().unwrap();
    wrong.extend(malformed.iter().map(|name| format!("{name} is malformed")));
    let repaired = plugin.repair(
        &held
            .iter()
            .map(|(container, ..)| container)
            .collect::<Vec<_>>(),
    );
    let holders = plugin.holders();
    let kept = plugin.kept();
    for (container, _, addresses) in &held {
        for address in addresses {
            if holders.get(address) != Some(container) {
                wrong.push(format!("{container} lost {address}"));
            }
        }
    }
    for (address, container) in &holders {
        if !kept.contains(address) && !held.iter().any(|(id, ..)| id == container) {
            wrong.push(format!(
                "{address} is leaked by {container} after doctor: {repaired}"
            ));
        }
    }
    let (told, well) = plugin.doctor(&[]);
    if !well {
        wrong.push(format!("doctor: {told}"));
    }
    let leaked = before - holders.len();
    println!(
        "{program}: {called} calls, {killed} killed, {seconds:.0} s; {} malformed files, {leaked} leaks that doctor ended, {} faults",
        malformed.len(),
        wrong.len()
    );
    wrong
}

#[test]
fn random_calls_and_kills() {
    let calls = env::var("BERTH_CRASH_CALLS")
        .ok()
        .and_then(|calls| calls.parse().ok())
        .unwrap_or(3000);
    let program = env::var("BERTH_CRASH_PROGRAM").unwrap_or_else(|_| OURS.into());
    let wrong = storm(&program, calls, program == OURS);
    if program == OURS {
        assert!(wrong.is_empty(), "{wrong:#?}");
    } else {
        println!("{wrong:#?}");
    }
}
