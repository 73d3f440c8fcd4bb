use super::v1::{Credential, GetResponse};

#[test]
fn debug_output_holds_no_secret() {
    let credential = Credential {
        registry: "registry.example".into(),
        username: "robot".into(),
        password: "hunter2".into(),
        identity_token: "hunter3".into(),
        registry_token: "hunter4".into(),
    };
    let response = GetResponse {
        credentials: vec![credential],
        problems: vec![],
    };
    let printed = format!("{response:?}");
    assert!(
        printed.contains("registry.example") && printed.contains("robot"),
        "{printed}"
    );
    assert!(!printed.contains("hunter"), "{printed}");
}
