use std::time::Duration;

use serde_json::json;

use super::*;

/// The uids that the reads of each round show; `""` is no answer.
type Shown = &'static [&'static str];
/// The reads here, in the east and in the west; then the result for the east.
type Case = (
    &'static str,
    Option<Shown>,
    Shown,
    Shown,
    Result<Shown, &'static str>,
);

#[tokio::test]
async fn contexts_with_the_same_lease_are_one_cluster() {
    let start = Instant::now();
    let at = |round: usize, milliseconds: u64| {
        start
            + Duration::from_secs(2) * u32::try_from(round).unwrap()
            + Duration::from_millis(milliseconds)
    };
    let table: [Case; 12] = [
        (
            "three clusters",
            Some(&["h", "h"]),
            &["e", "e"],
            &["w", "w"],
            Ok(&[]),
        ),
        (
            "this cluster has no leader",
            None,
            &["e", "e"],
            &["w", "w"],
            Ok(&[]),
        ),
        (
            "one of them twice",
            Some(&["h", "h"]),
            &["e", "e"],
            &["e", "e"],
            Ok(&["west"]),
        ),
        (
            "this one",
            Some(&["h", "h"]),
            &["h", "h"],
            &["w", "w"],
            Err("is in this very cluster"),
        ),
        (
            "this one does not answer",
            Some(&["", ""]),
            &["e", "e"],
            &["w", "w"],
            Err("could not be read yet"),
        ),
        (
            "it answers late",
            Some(&["", "h"]),
            &["e", "e"],
            &["w", "w"],
            Err("is in this very cluster"),
        ),
        (
            "and was seen beside since",
            Some(&["", "h", "h"]),
            &["e", "e", "e"],
            &["w", "w", "w"],
            Ok(&[]),
        ),
        (
            "the other answers late",
            Some(&["h", "h"]),
            &["e", "e"],
            &["", "w"],
            Ok(&["west"]),
        ),
        (
            "the other never does",
            Some(&["h", "h"]),
            &["e", "e"],
            &["", ""],
            Ok(&["west"]),
        ),
        (
            "the other did",
            Some(&["h", "h", "h"]),
            &["e", "e", "e"],
            &["w", "w", ""],
            Ok(&[]),
        ),
        // A Lease that was created again may be the one that the other context has shown before.
        (
            "made anew",
            Some(&["h", "h", "h"]),
            &["e", "f", "f"],
            &["e", "", ""],
            Ok(&["west"]),
        ),
        (
            "both shown since",
            Some(&["h", "h", "h"]),
            &["e", "f", "f"],
            &["e", "e", "e"],
            Ok(&[]),
        ),
    ];
    for (what, here, east, west, expected) in table {
        let mut seen = Seen::default();
        for round in 0..east.len() {
            let read = |shown: Shown| match shown[round] {
                "" => Err("no route".to_owned()),
                uid => Ok(serde_json::from_value(
                    json!({"metadata": {"uid": uid}, "spec": {"renewTime": round.to_string()}}),
                )
                .unwrap()),
            };
            if let Some(here) = here {
                seen.note_here(read(here), at(round, 0), at(round, 5));
            }
            seen.note("east", read(east), at(round, 0), at(round, 5));
            seen.note("west", read(west), at(round, 0), at(round, 5));
        }
        let way = seen.way("east", at(east.len() - 1, 5));
        match (way, expected) {
            (Ok(way), Ok(aliases)) => {
                assert_eq!(Vec::from_iter(&way.aliases), aliases, "{what}")
            }
            (Err(why), Err(words)) => assert!(why.contains(words), "{what}: {why}"),
            (way, _) => panic!("{what}: {way:?}"),
        }
    }
}

#[tokio::test]
async fn promise_is_dropped_if_context_shows_other_lease() {
    let now = Instant::now();
    let lease = |uid: &str| Ok(serde_json::from_value(json!({"metadata": {"uid": uid}})).unwrap());
    for (shown, is_kept) in [
        (lease("e"), true),
        (Err("no route".to_owned()), true),
        (lease("f"), false),
    ] {
        let mut seen = Seen::default();
        seen.note("east", lease("e"), now, now);
        for cluster in ["east", "west"] {
            let member = Member {
                cluster: cluster.to_owned(),
                ..Member::default()
            };
            seen.members.insert(
                member,
                SeenMember {
                    promise: Some((2, now)),
                    ..SeenMember::default()
                },
            );
        }
        let what = format!("{shown:?}");
        seen.note("east", shown, now, now);
        let kept = |of: &str| {
            let mut members = seen.members.iter();
            members.any(|(member, seen)| member.cluster == of && seen.promise.is_some())
        };
        assert_eq!((kept("east"), kept("west")), (is_kept, true), "{what}");
    }
}
