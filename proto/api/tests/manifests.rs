//! The committed definitions are those of the types.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

/// Set, it writes the definitions instead of comparing them.
const WRITE: &str = "WRITE_CRDS";
const COMMAND: &str = "WRITE_CRDS=1 cargo test -p berth-api --test manifests";

#[test]
fn committed_definitions_are_up_to_date() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../charts/berth/files/crds");
    for definition in berth_api::crd::definitions()? {
        let name =
            definition.pointer("/metadata/name").and_then(|name| name.as_str()).ok_or("a definition has no name")?;
        let file = folder.join(format!("{name}.yaml"));
        let yaml = serde_saphyr::to_string(&definition)?;
        let text =
            format!("# Made from proto/api by `{COMMAND}`. Change the types or the rules there instead.\n{yaml}");
        if env::var_os(WRITE).is_some() {
            fs::create_dir_all(&folder)?;
            fs::write(&file, text)?;
        } else {
            let committed = fs::read_to_string(&file).unwrap_or_default();
            assert!(committed == text, "{} is not what the types say: run `{COMMAND}` and commit it", file.display());
        }
    }
    Ok(())
}
