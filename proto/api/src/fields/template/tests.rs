use super::*;

#[test]
fn template_keeps_text_and_knows_its_labels() {
    let text = r#"{"spec":{"z":1.50,"topologySpreadConstraints":[{"topologyKey":"zone"},7,{"topologyKey":8},{}]},
            "metadata":{"labels":{"b":"2","a":"1","odd":3},"odd":[]}}"#;
    let template: PodTemplate = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&template).unwrap(), text);
    assert_eq!(template.labels(), [("a", "1"), ("b", "2")].into());
    assert_eq!(
        (template.label("b"), template.label("c")),
        (Some("2"), None)
    );
    assert_eq!(template.topology_keys().collect::<Vec<_>>(), ["zone"]);
    assert_eq!(template.value()["spec"]["z"], 1.5);
    let again: PodTemplate =
        serde_json::from_value(serde_json::to_value(&template).unwrap()).unwrap();
    assert_eq!(
        (again.labels(), again.value()),
        (template.labels(), template.value())
    );
}

#[test]
fn a_template_of_an_odd_form_has_no_labels() {
    for odd in [
        "null",
        "[]",
        r#"[{"labels":{"a":"1"}}]"#,
        r#"{"metadata":[{"a":"1"}]}"#,
        r#"{"spec":7}"#,
    ] {
        let template: PodTemplate = serde_json::from_str(odd).unwrap();
        assert_eq!(
            (template.labels().len(), template.topology_keys().count()),
            (0, 0),
            "{odd}"
        );
    }
}

#[test]
fn a_claim_template_knows_its_name() {
    let of = |text: &str| {
        serde_json::from_str::<VolumeClaimTemplate>(text)
            .unwrap()
            .name()
            .to_owned()
    };
    assert_eq!(of(r#"{"metadata":{"name":"data"},"spec":{}}"#), "data");
    assert_eq!(
        (of(r#"{"metadata":{"name":7}}"#), of("[]")),
        (String::new(), String::new())
    );
}

#[test]
fn claims_replace_volumes_of_the_same_name() {
    let mut spec =
        json!({"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]});
    mount_claims(
        &mut spec,
        [
            ("data", "data-web-1".to_owned()),
            ("log", "log-web-1".to_owned()),
        ],
    );
    let volume = |name: &str, claim: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
    assert_eq!(
        spec["volumes"],
        json!([volume("data", "data-web-1"), {"name": "tmp", "emptyDir": {}}, volume("log", "log-web-1")])
    );
    let mut none = json!({});
    mount_claims(&mut none, []);
    assert_eq!(none, json!({}), "a spec without claims is left as it is");
}
