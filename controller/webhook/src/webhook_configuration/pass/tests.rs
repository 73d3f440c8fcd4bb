use super::*;

#[test]
fn bundle_is_held_since_all_places_contain_it() {
    let [then, now] = [1, 2].map(|second| Timestamp::from_second(second).unwrap());
    let of = |bundle: &str, since| Some((bundle.to_owned(), since));
    for (before, bundle, everywhere, after) in [
        (None, "", true, None),
        (of("a", then), "", true, None),
        (None, "a", true, of("a", now)),
        (of("a", then), "a", true, of("a", then)),
        (of("a", then), "b", true, of("b", now)),
        (of("a", then), "a", false, None),
    ] {
        assert_eq!(
            held(before.clone(), bundle.to_owned(), everywhere, now),
            after,
            "{before:?} {bundle} {everywhere}"
        );
    }
}
