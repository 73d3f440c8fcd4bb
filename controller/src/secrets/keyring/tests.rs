use super::*;

fn keyring(locations: &[&str]) -> Keyring {
    let mut keyring = Keyring::default();
    for location in locations {
        let json =
            serde_json::json!({"auths": {*location: {"username": location, "password": "p"}}})
                .to_string();
        keyring
            .add(DOCKERCONFIGJSON.0, |_| Some(json.as_bytes()))
            .unwrap();
    }
    keyring
}

fn users(keyring: &Keyring, image: &str) -> Vec<String> {
    keyring
        .lookup(image)
        .into_iter()
        .map(|c| c.username)
        .collect()
}

#[test]
fn keys_match_as_the_kubelet_matches_them() {
    let table = [
        ("registry.example", "registry.example/app", true),
        ("https://registry.example", "registry.example/app", true),
        ("http://registry.example/v1/", "registry.example/app", true),
        ("registry.example/v2/", "registry.example/team/app", true),
        ("registry.example/team", "registry.example/team/app", true),
        ("registry.example/team", "registry.example/other/app", false),
        ("registry.example", "registry.example:5000/app", false),
        ("registry.example:5000", "registry.example:5000/app", true),
        ("*.example", "registry.example/app", true),
        ("*.example", "a.registry.example/app", false),
        ("reg*.ex?mple", "registry.example/app", true),
        ("*.*.example", "a.registry.example/app", true),
        ("other.example", "registry.example/app", false),
        ("docker.io", "nginx", true),
        ("docker.io/library", "nginx", true),
        ("docker.io/team", "nginx", false),
        ("https://index.docker.io/v1/", "nginx", true),
        ("index.docker.io", "docker.io/team/app", true),
        ("index.docker.io", "registry.example/app", false),
        ("localhost:5000", "localhost:5000/app", true),
    ];
    for (location, image, expected) in table {
        assert_eq!(
            !users(&keyring(&[location]), image).is_empty(),
            expected,
            "{location} for {image}"
        );
    }
}

#[test]
fn stars_stand_for_any_text_and_many_take_no_time() {
    let table = [
        ("", "", true),
        ("*", "", true),
        ("a*b*c", "aXbYbc", true),
        ("a*b", "aXbY", false),
        ("?", "", false),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(
            glob(pattern.as_bytes(), text.as_bytes()),
            expected,
            "{pattern} for {text}"
        );
    }
    assert!(!glob(
        "*a".repeat(100).as_bytes(),
        format!("{}b", "a".repeat(200)).as_bytes()
    ));
}

#[test]
fn the_most_specific_key_comes_first() {
    let keyring = keyring(&[
        "registry.example",
        "*.example",
        "registry.example/team",
        "index.docker.io",
    ]);
    assert_eq!(
        users(&keyring, "registry.example/team/app"),
        ["registry.example/team", "registry.example", "*.example"]
    );
}

#[test]
fn every_form_of_a_credential_is_read() {
    let mut keyring = Keyring::default();
    let auth = STANDARD.encode("robot:pa:ss\0");
    let json =
        format!(r#"{{"a.example":{{"auth":"{auth}"}},"b.example":{{"identitytoken":"t"}}}}"#);
    keyring
        .add(DOCKERCFG.0, |field| {
            (field == DOCKERCFG.1).then_some(json.as_bytes())
        })
        .unwrap();
    let found = &keyring.lookup("a.example/app")[0];
    assert_eq!(
        (found.username.as_str(), found.password.as_str()),
        ("robot", "pa:ss")
    );
    assert_eq!(keyring.lookup("b.example/app")[0].identity_token, "t");
    // The same secret once more changes nothing; a different one is tried, too.
    keyring.add(DOCKERCFG.0, |_| Some(json.as_bytes())).unwrap();
    keyring
        .add(DOCKERCFG.0, |_| {
            Some(br#"{"a.example":{"username":"other"}}"#)
        })
        .unwrap();
    assert_eq!(users(&keyring, "a.example/app"), ["robot", "other"]);
}

#[test]
fn unreadable_secret_error_omits_its_data() {
    let table: [(&str, Option<&[u8]>, &str); 5] = [
        ("Opaque", Some(b"{}"), "is of type \"Opaque\""),
        (DOCKERCONFIGJSON.0, None, "has no .dockerconfigjson"),
        (DOCKERCONFIGJSON.0, Some(b"hunter2"), "line 1"),
        (
            DOCKERCONFIGJSON.0,
            Some(br#"{"auths":{"a":{"auth":"hunter2"}}}"#),
            "whose auth is not base64",
        ),
        (
            DOCKERCFG.0,
            Some(br#"{"a":{"username":["hunter2"]}}"#),
            "line 1",
        ),
    ];
    for (type_, data, expected) in table {
        let why = Keyring::default().add(type_, |_| data).unwrap_err();
        assert!(why.contains(expected), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
}
