use super::*;

#[test]
fn a_holder_mounts_what_is_its_own_before_it_says_ready() {
    let own = [OwnDirectory {
        source: "/a/run/netns".into(),
        target: "/run/netns".into(),
    }];
    let script = holder_script("node-1", &own);
    let position = |text: &str| {
        script
            .find(text)
            .unwrap_or_else(|| panic!("no {text:?} in {script}"))
    };
    assert!(position("--make-rshared /") < position("mount --bind '/a/run/netns' '/run/netns'"));
    assert!(position("mount --bind") < position("echo ready"));
}
