//! The committed definitions are those of the types.

use std::fs;
use std::path::PathBuf;

const WRITE: &str = "WRITE_CRDS";

#[test]
fn committed_definitions_are_up_to_date() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/berth/files/crds");
    for definition in berth_api::crd::definitions().unwrap() {
        let file = folder.join(format!("{}.yaml", definition["metadata"]["name"].as_str().unwrap()));
        let yaml = berth_yaml(&definition);
        if std::env::var_os(WRITE).is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, yaml).unwrap();
        } else {
            let committed = fs::read_to_string(&file).unwrap_or_default();
            assert!(
                committed == yaml,
                "{} is not what the types say: run `{WRITE}=1 cargo test -p berth-api --test manifests` and commit it",
                file.display()
            );
        }
    }
}

fn berth_yaml(definition: &serde_json::Value) -> String {
    let yaml = serde_saphyr::to_string(definition).unwrap();
    format!(
        "# Made from proto/api by `{WRITE}=1 cargo test -p berth-api --test manifests`. Change the types or the rules instead.\n{yaml}"
    )
}
