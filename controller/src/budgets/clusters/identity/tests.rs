use std::time::Duration;

use super::*;

#[tokio::test]
async fn two_clusters_are_those_whose_leases_were_there_at_one_moment() {
    let start = Instant::now();
    let of = |uid: &str, (since, until): (u64, u64)| {
        let [since, until] = [since, until].map(|seconds| start + Duration::from_secs(seconds));
        Identity {
            uid: uid.to_owned(),
            since,
            until,
        }
    };
    for (one, other, expected) in [
        (of("a", (1, 9)), of("b", (1, 9)), true),
        (of("a", (1, 9)), of("a", (1, 9)), false),
        (of("a", (1, 4)), of("b", (3, 9)), true),
        (of("a", (1, 3)), of("b", (3, 9)), true),
        (of("a", (1, 2)), of("b", (3, 9)), false),
        // Seen once, before the other was known to exist.
        (of("a", (2, 1)), of("b", (1, 9)), false),
        (of("", (1, 9)), of("b", (1, 9)), false),
        (of("", (1, 9)), of("", (1, 9)), false),
    ] {
        assert_eq!(one.is_apart(&other), expected, "{one:?} {other:?}");
        assert_eq!(other.is_apart(&one), expected, "{other:?} {one:?}");
    }
}
