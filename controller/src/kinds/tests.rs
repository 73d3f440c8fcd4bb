use super::*;

#[test]
fn all_kinds_are_worked_on_or_those_that_are_named() {
    let mut all = Kinds::parse("");
    assert!(all.has("CloneSet") && all.has("NodeImage"));
    let mut some = Kinds::parse("CloneSet, SidecarSet,ImagePullJob");
    assert_eq!(
        ["CloneSet", "NodeImage", "ImagePullJob"].map(|kind| some.has(kind)),
        [true, false, true]
    );
    assert_eq!(some.unknown().collect::<Vec<_>>(), ["SidecarSet"]);
}

#[test]
fn question_for_enabled_kind_names_no_controller() {
    let kinds = Kinds::parse("Pod");
    assert!(kinds.is_enabled("Pod") && !kinds.is_enabled("CloneSet"));
    assert_eq!(kinds.unknown().collect::<Vec<_>>(), ["Pod"]);
}
