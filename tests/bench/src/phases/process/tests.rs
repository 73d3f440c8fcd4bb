use super::*;

#[test]
fn files_of_the_kernel_are_read() {
    let stat = "12 (a) b) S 1 12 12 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 5 0 1 2 3";
    assert_eq!(cpu(stat), Some(2.0));
    assert_eq!(cpu("12 (a"), None);
    let used = used(std::process::id()).unwrap();
    assert!(
        used.resident > 0 && used.anonymous > 0 && used.peak >= used.resident,
        "{used:?}"
    );
}
