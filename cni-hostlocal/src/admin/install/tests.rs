use super::*;
use std::os::unix::fs::symlink;

#[test]
fn what_was_there_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let (place, ours) = (directory.path().join(NAME), directory.path().join("ours"));
    fs::write(&ours, SIGN).unwrap();
    // A link whose target is not visible, as distributions and the tests' clusters have it.
    symlink("/nowhere/host-local", &place).unwrap();
    for wanted in ["is installed", "is there already"] {
        assert_eq!(install(&ours, directory.path()).unwrap(), wanted);
    }
    fs::write(&ours, format!("{SIGN} newer")).unwrap();
    assert_eq!(install(&ours, directory.path()).unwrap(), "is installed");
    assert_eq!(
        restore(directory.path()).unwrap(),
        "gave way to what was there before"
    );
    assert_eq!(
        fs::read_link(&place).unwrap(),
        Path::new("/nowhere/host-local")
    );
    // The distribution's package was upgraded meanwhile: `restore` must bring the new one back.
    install(&ours, directory.path()).unwrap();
    fs::remove_file(&place).unwrap();
    fs::write(&place, "upgraded").unwrap();
    assert_eq!(install(&ours, directory.path()).unwrap(), "is installed");
    assert_eq!(
        restore(directory.path()).unwrap(),
        "gave way to what was there before"
    );
    assert_eq!(fs::read(&place).unwrap(), b"upgraded");
    assert_eq!(restore(directory.path()).unwrap(), "was not there");
    fs::remove_file(&place).unwrap();
    install(&ours, directory.path()).unwrap();
    assert_eq!(
        restore(directory.path()).unwrap(),
        "is removed, for there was nothing before"
    );
    assert!(!place.exists());
}
