use super::*;

/// Runs steps in rounds and returns how many started in each.
fn rounds(mut window: Window, steps: usize, fails: impl Fn(usize) -> bool) -> Vec<usize> {
    let (mut started, mut rounds) = (0, Vec::new());
    loop {
        let mut running = 0;
        while started < steps && window.admits(running) {
            running += 1;
            started += 1;
        }
        if running == 0 {
            return rounds;
        }
        for step in started - running..started {
            if fails(step) {
                window.failed()
            } else {
                window.succeeded(0.0)
            }
        }
        rounds.push(running);
    }
}

#[test]
fn doubles_to_the_bound() {
    assert_eq!(
        rounds(Window::new(true, 8), 30, |_| false),
        [1, 2, 4, 8, 8, 7]
    );
    assert_eq!(rounds(Window::new(false, 8), 20, |_| false), [8, 8, 4]);
}

#[test]
fn a_failure_ends_a_slow_start_only() {
    assert_eq!(
        rounds(Window::new(true, 8), 30, |step| step == 4),
        [1, 2, 4]
    );
    assert_eq!(rounds(Window::new(true, 8), 30, |step| step == 0), [1]);
    assert_eq!(rounds(Window::new(false, 8), 20, |_| true), [8, 8, 4]);
}

#[test]
fn closed_is_closed() {
    let mut window = Window::new(false, 8);
    window.close();
    window.succeeded(0.0);
    assert!(!window.admits(0));
}

/// How many steps run after many answers of a server that does this many at once, each in one unit
/// of time, while the others wait.
fn settled(mut window: Window, at_once: f64) -> usize {
    let mut running = 0;
    for _ in 0..5_000 {
        running = (0..)
            .find(|running| !window.admits(*running))
            .unwrap_or_default();
        let took = (f64::from(u16::try_from(running).unwrap_or(u16::MAX)) / at_once).max(1.0);
        window.succeeded(1.0 - 1.0 / took);
    }
    running
}

#[test]
fn window_settles_slightly_above_server_capacity() {
    // At once => run.
    for (at_once, runs) in [
        (1.0, 4..=9),
        (2.0, 5..=10),
        (8.0, 11..=16),
        (20.0, 23..=28),
        (100.0, 32..=32),
    ] {
        for slow in [true, false] {
            let settled = settled(Window::new(slow, 32), at_once);
            assert!(
                runs.contains(&settled),
                "{at_once} at once, slow start {slow}: {settled}"
            );
        }
    }
    assert_eq!(
        settled(Window::new(false, 2), 0.1),
        2,
        "never more than the bound"
    );
}
