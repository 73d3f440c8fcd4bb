//! Pull secrets: docker's configuration in both forms. The first line is the image, the rest the
//! secret's data.

use berth_controller::secrets::keyring::Keyring;

pub(crate) fn pull_secret(data: &[u8]) {
    let end = data
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(data.len());
    let (image, config) = data.split_at(end);
    let image = String::from_utf8_lossy(image);
    let config = config.get(1..).unwrap_or_default();
    for type_ in [
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/dockercfg",
        "Opaque",
    ] {
        let mut keyring = Keyring::default();
        let added = keyring.add(type_, |_| Some(config));
        assert!(added.as_ref().is_ok() || added.is_err_and(|why| !why.is_empty()));
        let found = keyring.lookup(&image);
        assert_eq!(keyring.lookup(&image), found, "asked twice");
    }
}
