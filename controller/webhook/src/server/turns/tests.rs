use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[test]
fn line_serves_namespaces_in_turn() {
    for (places, comes, expected) in [
        (1, "aaab", "aba"),
        (1, "aabbcc", "abcbc"),
        (1, "abab", "bab"),
        (2, "aabc", "bc"),
        (4, "aaaaab", "aa"),
    ] {
        let mut line = Line::new(places);
        let mut taken = VecDeque::new();
        for namespace in comes.chars() {
            if line.enter(&namespace.to_string(), namespace) == Entry::Taken {
                taken.push_back(namespace);
            }
        }
        let mut served = String::new();
        while let Some(done) = taken.pop_front() {
            line.give_back(&done.to_string());
            while let Some(next) = line.next() {
                served.push(next);
                taken.push_back(next);
            }
        }
        assert_eq!(served, expected, "{places} {comes}");
    }
}

#[test]
fn flood_leaves_a_place_to_each_other_namespace() {
    let mut line = Line::new(8);
    let flood = (0..100)
        .map(|number| line.enter("t1", number))
        .collect::<Vec<_>>();
    let count = |is: fn(&Entry) -> bool| flood.iter().filter(|entry| is(entry)).count();
    assert_eq!(count(|entry| *entry == Entry::Taken), 6);
    assert_eq!(
        count(|entry| *entry == Entry::Full),
        100 - 6 - MOST_OF_NAMESPACE
    );
    assert_eq!(
        ["a", "b"].map(|one| line.enter(one, 0)),
        [Entry::Taken, Entry::Taken]
    );
    // The line is full when others come, and they find a place in it.
    let others = (0..30).map(|number| line.enter(&format!("n{number}"), 0));
    assert!(
        others
            .collect::<Vec<_>>()
            .iter()
            .all(|entry| matches!(entry, Entry::Waits(_)))
    );
    assert_eq!(line.waiting(), MOST);
}

#[tokio::test(start_paused = true)]
async fn timed_out_and_dropped_turns_are_not_lost() {
    let turns = Turns::new(1);
    let first = turns.take("a").await;
    assert!(first.is_some());
    let began = tokio::time::Instant::now();
    assert!(turns.take("b").await.is_none(), "the wait times out");
    assert_eq!(began.elapsed(), WAIT);
    let (second, ()) = tokio::join!(turns.take("b"), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(first);
    });
    assert!(second.is_some());
    // The waiter gets its turn, and is dropped before it is polled again.
    let mut waits = Box::pin(turns.take("c"));
    assert!(futures::poll!(&mut waits).is_pending());
    drop(second);
    drop(waits);
    assert!(turns.take("d").await.is_some());
}

#[derive(Debug, Clone)]
enum Move {
    Enter(u8),
    Leave(usize),
    GiveBack(usize),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => (0..6_u8).prop_map(Move::Enter),
        1 => (0..9_usize).prop_map(Move::Leave),
        2 => (0..9_usize).prop_map(Move::GiveBack),
    ];
    prop::collection::vec(one, 0..300)
}

proptest! {
    // For any sequence of moves: no more places are held than there are, and no namespace waits
    // that could go. A namespace that waits and holds no place is overtaken by each other one once
    // at most.
    #[test]
    fn line_is_bounded_and_overtakes_no_namespace_twice(places in 1..9_usize, moves in moves()) {
        let mut line = Line::new(places);
        let (mut taken, mut waiting) = (Vec::<u8>::new(), Vec::<(u64, u8)>::new());
        let mut overtaken = BTreeMap::<(u8, u8), u32>::new();
        for one in moves {
            match one {
                Move::Enter(namespace) => match line.enter(&namespace.to_string(), namespace) {
                    Entry::Taken => taken.push(namespace),
                    Entry::Waits(number) => waiting.push((number, namespace)),
                    Entry::Full => prop_assert!(line.waiting() >= MOST_OF_NAMESPACE),
                },
                Move::Leave(at) if !waiting.is_empty() => {
                    let (number, namespace) = waiting.remove(at % waiting.len());
                    line.leave(&namespace.to_string(), number);
                }
                Move::GiveBack(at) if !taken.is_empty() => {
                    let namespace = taken.remove(at % taken.len());
                    line.give_back(&namespace.to_string());
                    while let Some(next) = line.next() {
                        taken.push(next);
                        if let Some(at) = waiting.iter().position(|(_, one)| *one == next) {
                            waiting.remove(at);
                        }
                        let others: BTreeSet<u8> = waiting.iter().map(|(_, one)| *one).filter(|one| !taken.contains(one)).collect();
                        overtaken.retain(|(waits, _), _| *waits != next && others.contains(waits));
                        for waits in others {
                            *overtaken.entry((waits, next)).or_default() += 1;
                        }
                    }
                }
                _ => {}
            }
            overtaken.retain(|(waits, _), _| waiting.iter().any(|(_, one)| one == waits));
            prop_assert!(overtaken.values().all(|times| *times <= 1), "{overtaken:?}");
            prop_assert!(taken.len() <= places && line.waiting() <= MOST);
            prop_assert_eq!((line.free + taken.len(), line.order.len()), (places, line.waiting.len()));
            prop_assert!(!line.order.iter().any(|namespace| line.may_take(namespace)));
        }
    }
}
