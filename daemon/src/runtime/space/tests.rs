use super::*;

#[test]
fn what_does_not_fit_is_refused_with_numbers() {
    let space = Space {
        mountpoint: "/var/lib/containerd".into(),
        free: 3 << 30,
        total: 20 << 30,
    };
    assert_eq!(check("app:1", 3 << 30, 9 << 30, &space), Ok(()));
    let refusal = check("app:1", (3 << 30) + 1, 9 << 30, &space).unwrap_err();
    for part in [
        "app:1",
        "9.0 GiB",
        "3.0 GiB free of 20.0 GiB",
        "/var/lib/containerd",
    ] {
        assert!(refusal.contains(part), "{part} is not in: {refusal}");
    }
}

#[test]
fn a_path_that_is_not_mounted_falls_back_to_the_own_root() {
    let here = measure(Path::new("/"), "/").unwrap();
    let elsewhere = measure(Path::new("/no/such/root"), "/var/lib/containerd").unwrap();
    assert_eq!(
        (elsewhere.total, elsewhere.mountpoint.as_str()),
        (here.total, "/var/lib/containerd")
    );
    assert!(here.free <= here.total && here.total > 0);
}

#[test]
fn sizes_are_readable() {
    let table = [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3 << 19, "1.5 MiB"),
        (5 << 40, "5.0 TiB"),
    ];
    for (bytes, text) in table {
        assert_eq!(Size(bytes).to_string(), text);
    }
}
