use super::*;

#[test]
fn list_accepts_both_spellings_and_skips_known_kinds() {
    let kinds = |list: &str| {
        listed(list).map(|kinds| {
            kinds
                .into_iter()
                .map(|kind| format!("{}/{}", kind.api_version(), kind.kind))
                .collect::<Vec<_>>()
        })
    };
    let list = r#"{"workloads": [{"group": "a.example", "version": "v1", "kind": "Db"}, {"Group": "apps", "Version": "v1", "Kind": "StatefulSet"}]}"#;
    assert_eq!(kinds(list), Ok(vec!["a.example/v1/Db".to_owned()]));
    assert_eq!(kinds("{}"), Ok(Vec::new()));
    let error = kinds("[1").unwrap_err();
    assert!(
        error.contains("PPS_Watch_Custom_Workload_WhiteList of ConfigMap kruise-configuration"),
        "{error}"
    );
    let many = format!(
        r#"{{"workloads": [{}]}}"#,
        vec![r#"{"version": "v1", "kind": "X"}"#; 99].join(",")
    );
    assert_eq!(kinds(&many).unwrap().len(), MOST);
}
