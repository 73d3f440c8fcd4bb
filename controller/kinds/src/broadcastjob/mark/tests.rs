use std::collections::BTreeSet;

use super::*;

#[test]
fn entry_takes_sixteen_bytes_and_is_read_back() {
    let (one, other) = (
        hash("6f0c1d2e-0000-4000-8000-000000000001"),
        hash("6f0c1d2e-0000-4000-8000-000000000002"),
    );
    let entries = [
        write(&one, PodResult::Succeeded),
        write(&other, PodResult::Accepted),
    ];
    let json = serde_json::to_string(&entries).unwrap_or_default();
    assert_eq!(
        json.len(),
        2 * 16 + 1,
        "each with its quotes and comma: {json}"
    );
    let read = read(&entries);
    assert_eq!(read.get(&*one).copied(), Some(PodResult::Succeeded));
    assert_eq!(read.get(&*other).copied(), Some(PodResult::Accepted));
    assert!(has(&entries, &one) && has(&entries, &other) && !has(&entries[..1], &other));
}

#[test]
fn malformed_entries_are_ignored() {
    let odd = [
        "",
        "+",
        "abcdefghijkl",
        "+abc",
        "+ABCDEFGHIJKL",
        "+ab\u{e9}defghijk",
        "\u{e9}abcdefghijkl",
        "?abcdefghijkl",
    ];
    let odd = odd.map(str::to_owned);
    assert_eq!(read(&odd).len(), 0);
    assert!(!has(&odd, "abcdefghijkl") && !has(&odd, ""));
}

#[test]
fn hashes_of_uids_differ_and_are_found_in_names() {
    let all: BTreeSet<_> = (0..10_000).map(|n| hash(&format!("uid-{n}"))).collect();
    assert_eq!(all.len(), 10_000);
    for hash in all.iter().take(100) {
        assert_eq!(in_name("a-b", &pod_name("a-b", hash)), Some(&**hash));
    }
    for other in [
        "job-x7k2p",
        "job",
        "job-",
        "jobabcdefghijkl",
        "other-abcdefghijkl",
        "job-abcdefghijk1",
    ] {
        assert_eq!(in_name("job", other), None, "{other}");
    }
}
