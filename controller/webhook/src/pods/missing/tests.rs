use super::*;

#[tokio::test(start_paused = true)]
async fn missing_name_is_looked_for_once_a_second() {
    let missing = Missing::default();
    assert!(!missing.has("a", "web"));
    missing.looked("a", "web", false);
    for (millis, name, expected) in [
        (0, "web", true),
        (0, "db", false),
        (999, "web", true),
        (1, "web", false),
        (0, "web", true),
        (1_000, "web", false),
    ] {
        tokio::time::advance(Duration::from_millis(millis)).await;
        assert_eq!(missing.has("a", name), expected, "{millis} {name}");
    }
    assert!(!missing.has("b", "web"));
    missing.looked("a", "web", true);
    assert!(!missing.has("a", "web"), "it is there");
}

#[tokio::test(start_paused = true)]
async fn missing_names_are_bounded_and_make_room() {
    let missing = Missing::default();
    (0..MOST + 10).for_each(|number| missing.note("a", &number.to_string()));
    assert!(missing.has("a", "0") && !missing.has("a", &MOST.to_string()));
    assert_eq!(missing.lock().len(), MOST);
    tokio::time::advance(MOMENT).await;
    missing.note("a", "late");
    assert_eq!(missing.lock().len(), 1);
}
