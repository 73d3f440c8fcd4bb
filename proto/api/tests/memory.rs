//! The memory of cached objects: a template takes as much memory as its text, for any content.
//!
//! This is a test program with one test, so that no other test allocates memory while it measures.
//! A counting allocator would need unsafe code. So the test reads the process's memory from the
//! kernel, and keeps enough objects to see a difference.

use berth_api::v1beta1::CloneSet;
use serde_json::Value;

/// Anonymous memory of this process in bytes. `None` if the kernel does not report it.
fn in_use() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

/// The memory of objects of this text, in hundredths of their text. They are never freed, because
/// later objects must not reuse their memory.
fn percent<T>(text: &str, copies: usize, read: impl Fn(&str) -> T) -> Option<usize> {
    let mut kept = Vec::with_capacity(copies);
    let before = in_use()?;
    kept.extend((0..copies).map(|_| read(text)));
    let bytes = in_use()?.saturating_sub(before);
    std::mem::forget(kept);
    Some(100 * bytes / (text.len() * copies))
}

#[test]
fn kept_object_takes_less_than_twice_its_text() {
    const BYTES: usize = 50 << 10;
    let list = |item: &str| format!("[{}]", vec![item; BYTES / (item.len() + 1)].join(","));
    let map = |value: &str| {
        let entries: Vec<_> = (0..BYTES / 10)
            .map(|at| format!(r#""{at:x}":{value}"#))
            .collect();
        format!("{{{}}}", entries.join(","))
    };
    for odd in [
        list("[]"),
        list("{}"),
        list(r#"{"":0}"#),
        list("[[]]"),
        map("{}"),
        map("1"),
        list("7"),
    ] {
        let claim = format!(r#"{{"metadata":{{"name":"data","odd":{odd}}},"spec":{odd}}}"#);
        let metadata = r#"{"labels":{"app":"web"}}"#;
        let template =
            format!(r#"{{"metadata":{metadata},"spec":{{"containers":{odd}}},"odd":{odd}}}"#);
        let spec = format!(
            r#"{{"selector":{{}},"template":{template},"volumeClaimTemplates":[{claim}]}}"#
        );
        let text = format!(r#"{{"metadata":{{"name":"web"}},"spec":{spec}}}"#);
        let set: CloneSet = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (
                set.spec.template.label("app"),
                set.spec.volume_claim_templates[0].name()
            ),
            (Some("web"), "data")
        );
        let kept = percent(&text, 40, |text| {
            serde_json::from_str::<CloneSet>(text).unwrap()
        })
        .unwrap();
        assert!(kept < 200, "takes {kept} % of its text: {}", &odd[..30]);
        let tree = percent(&text, 2, |text| {
            serde_json::from_str::<Value>(text).unwrap()
        })
        .unwrap();
        assert!(
            tree > 500,
            "a tree takes {tree} % of its text, so this finds nothing out: {}",
            &odd[..30]
        );
    }
}
