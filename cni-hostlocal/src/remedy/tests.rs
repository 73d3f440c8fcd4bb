use super::*;

#[test]
fn repair_names_what_is_not_the_default() {
    let program = env::current_exe().unwrap();
    let program = program.display();
    for (data_dir, network, sandboxes, wanted) in [
        (DATA_DIR, None, None, format!("{program} doctor --fix")),
        (
            DATA_DIR,
            Some("pods"),
            None,
            format!("{program} doctor --fix --network pods"),
        ),
        (
            "/a b",
            None,
            Some("/c'd"),
            format!(r"{program} doctor --fix --data-dir '/a b' --sandboxes '/c'\''d'"),
        ),
        (
            DATA_DIR,
            None,
            Some("-"),
            format!("crictl pods -q | {program} doctor --fix --sandboxes -"),
        ),
    ] {
        assert_eq!(repair(Path::new(data_dir), network, sandboxes), wanted);
    }
    assert_eq!(remove(Path::new("/a/fd00::5")), "rm -rf /a/fd00::5");
}
