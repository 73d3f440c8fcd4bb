use serde_json::json;

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn words_and_flags_choose_objects() {
    let all = || Targets {
        all: true,
        ..Targets::default()
    };
    let labelled = || Targets {
        selector: Some("app=web".to_owned()),
        ..Targets::default()
    };
    let table = [
        ("cloneset/web", Targets::default(), Some("CloneSet web")),
        (
            "clone/web asts/db",
            Targets::default(),
            Some("CloneSet web, StatefulSet db"),
        ),
        (
            "cloneset a b",
            Targets::default(),
            Some("CloneSet a, CloneSet b"),
        ),
        ("clonesets", all(), Some("CloneSet by ")),
        (
            "clonesets,ads",
            labelled(),
            Some("CloneSet, DaemonSet by app=web"),
        ),
        ("clonesets", Targets::default(), None),
        ("", Targets::default(), None),
        ("", all(), None),
        ("cloneset/web", all(), None),
        ("cloneset web", labelled(), None),
        ("cloneset/web db", Targets::default(), None),
        ("things", all(), None),
    ];
    for (text, flags, expected) in table {
        let got = chosen(&words(text), &flags)
            .ok()
            .map(|chosen| match chosen {
                Chosen::Named(all) => {
                    let title = |(kind, name): &(NamedKind, String)| {
                        format!("{} {name}", kind.resource.kind)
                    };
                    all.iter().map(title).collect::<Vec<_>>().join(", ")
                }
                Chosen::Selected(kinds, labels) => {
                    let kinds: Vec<_> = kinds.iter().map(|kind| kind.resource.kind).collect();
                    format!("{} by {labels}", kinds.join(", "))
                }
            });
        assert_eq!(got.as_deref(), expected, "{text} {flags:?}");
    }
}

#[test]
fn files_have_documents_and_lists() {
    let yaml = "kind: A\n---\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n";
    let kinds: Vec<_> = objects_of(yaml).unwrap();
    assert_eq!(
        kinds,
        [
            json!({"kind": "A"}),
            json!({"kind": "B"}),
            json!({"kind": "C"})
        ]
    );
    assert!(objects_of("a: [").is_err());
}

#[test]
fn kind_of_an_object_needs_its_group() {
    for (api_version, kind, expected) in [
        ("apps.kruise.io/v1alpha1", "CloneSet", Some("clonesets")),
        (
            "apps.kruise.io/v1beta1",
            "StatefulSet",
            Some("statefulsets"),
        ),
        ("apps/v1", "Deployment", Some("deployments")),
        ("apps/v1", "StatefulSet", None),
        ("v1", "Service", None),
        ("v1", "", None),
    ] {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}});
        let got = kind_of(&object).ok().map(|kind| kind.resource.plural);
        assert_eq!(got, expected, "{api_version} {kind}");
    }
}
