use super::*;

#[test]
fn refusal_series_beyond_the_limit_are_merged() {
    let (refused, mut registry) = (RefusedDeletions::default(), Registry::default());
    refused.register(&mut registry);
    refused
        .definitions
        .count("widgets.example.com", &"x".repeat(300));
    refused.namespaces.count("shop", "admin");
    for user in 0..MOST_SERIES + 5 {
        refused.namespaces.count("shop", &user.to_string());
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let user = "x".repeat(LONGEST_USER);
    for line in [
        r#"namespace_deletion_protection{name="shop",username="admin"} 1"#,
        r#"namespace_deletion_protection{name="other",username="other"} 6"#,
        &format!(r#"crd_deletion_protection{{name="widgets.example.com",username="{user}"}} 1"#),
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is not in {text}"
        );
    }
}
