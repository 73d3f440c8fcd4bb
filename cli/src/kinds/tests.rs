use super::*;

fn kind(name: &str) -> Result<&'static str, String> {
    parse(name)
        .map(|kind| kind.resource.kind)
        .map_err(|wrong| wrong.0)
}

#[test]
fn kinds_have_the_names_of_kubectl() {
    for (name, expected) in [
        ("clone", "CloneSet"),
        ("CloneSets", "CloneSet"),
        ("asts", "StatefulSet"),
        ("statefulsets.v1beta1.apps.kruise.io", "StatefulSet"),
        ("daemonset.apps.kruise.io", "DaemonSet"),
        ("pub", "PodUnavailableBudget"),
        ("nodeimage", "NodeImage"),
        ("pdb", "PodDisruptionBudget"),
        ("po", "Pod"),
        ("pods", "Pod"),
    ] {
        assert_eq!(kind(name), Ok(expected), "{name}");
    }
}

#[test]
fn unknown_kind_names_the_nearest() {
    let wrong = kind("clonesett").unwrap_err();
    assert_eq!(
        wrong,
        "there is no kind \"clonesett\"; do you mean \"cloneset\"?"
    );
    let far = kind("ingressclass").unwrap_err();
    assert!(
        far.contains("the kinds are broadcastjob, cloneset"),
        "{far}"
    );
    assert!(kind("statefulsets.apps").is_err());
}

#[test]
fn objects_are_one_word_or_two() {
    let words = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    for good in [&["clone/web"][..], &["clone", "web"]] {
        let (kind, name) = object(&words(good)).unwrap();
        assert_eq!((kind.resource.kind, &*name), ("CloneSet", "web"));
    }
    for bad in [&["clone"][..], &["clone/"], &["clone/web", "web"], &[]] {
        assert!(object(&words(bad)).is_err(), "{bad:?}");
    }
}
