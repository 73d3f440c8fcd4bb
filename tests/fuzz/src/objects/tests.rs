use super::*;

#[test]
fn every_version_of_every_kind_is_read_by_its_type() {
    let known = kinds::KINDS
        .iter()
        .flat_map(|kind| kind.versions().map(|version| (kind.kind, version)));
    for (kind, version) in known {
        let has = TYPES
            .iter()
            .any(|type_| (type_.kind, type_.version) == (kind, version));
        assert!(
            has,
            "TYPES in tests/fuzz/src/objects.rs lacks {kind} of {}",
            version.name()
        );
    }
}
