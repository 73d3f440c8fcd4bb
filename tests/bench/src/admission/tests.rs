use super::*;

#[test]
fn what_was_waited_for_creations_is_added_up() {
    let line = |suffix: &str, labels: &str, value: &str| {
        format!("{HISTOGRAM}{suffix}{{{labels}}} {value}\n")
    };
    let create = "name=\"a\",operation=\"CREATE\",rejected=\"false\",type=\"admit\"";
    let text = [
        line("_bucket", &format!("{create},le=\"0.005\""), "3"),
        line("_bucket", &format!("{create},le=\"+Inf\""), "4"),
        line("_sum", create, "0.5"),
        line("_count", create, "4"),
        line("_count", &create.replace("CREATE", "UPDATE"), "9"),
    ]
    .concat();
    let before = Histogram::parse(&text);
    assert_eq!(
        (before.calls, before.seconds, before.within("0.005")),
        (4.0, 0.5, 3.0)
    );
    let after =
        Histogram::parse(&text.replace(" 4\n", " 6\n").replace(" 3\n", " 4\n")).since(&before);
    assert_eq!(
        (after.calls, after.seconds, after.within("0.005")),
        (2.0, 0.0, 1.0)
    );
    let mut all = before;
    all.add(&after);
    assert_eq!((all.calls, all.within("0.005")), (6.0, 4.0));
    let columns = |all: &Histogram| {
        all.row("web")
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(columns(&all)[..5], ["web", "6", "83.33", "66.67", "%"]);
    assert_eq!(columns(&Histogram::default())[..4], ["web", "0", "-", "-"]);
}
