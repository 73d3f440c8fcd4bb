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
