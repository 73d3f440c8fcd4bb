//! `tests/openkruise.json` has the output of OpenKruise's own types for templates: HEAD's for
//! v1beta1, 1.9.0's for v1alpha1 (both with Kubernetes' libraries 1.32).

use berth_workload::objects::pod::Metadata;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize, Clone, Debug)]
struct Fact {
    what: String,
    version: String,
    workload: String,
    template: Value,
    name: String,
    /// The revision's data as text.
    data: String,
}

fn facts() -> Vec<Fact> {
    serde_json::from_str(include_str!("tests/openkruise.json")).unwrap()
}

impl Fact {
    fn revision(&self, number: i64) -> Arc<Revision> {
        let api_version = format!("apps.kruise.io/{}", self.version);
        let body = json!({
            "metadata": {
                "name": self.name,
                "ownerReferences": [{"apiVersion": api_version, "kind": "UnitedDeployment", "controller": true}],
            },
            "revision": number,
            "data": serde_json::from_str::<Value>(&self.data).unwrap(),
        });
        Arc::new(serde_json::from_value(body).unwrap())
    }

    /// The template as the apiserver has it in v1beta1.
    fn stored(&self) -> Value {
        if self.version == "v1beta1" {
            self.template.clone()
        } else {
            in_version(self.template.clone(), V1ALPHA1, V1BETA1)
        }
    }
}

fn deployment() -> Fact {
    facts().remove(0)
}

fn of_kind(field: &str) -> Fact {
    facts()
        .into_iter()
        .find(|fact| fact.template[field].is_object())
        .unwrap()
}

fn named(name: &str, number: i64, template: &Value) -> Arc<Revision> {
    let metadata = Metadata {
        name: name.into(),
        ..Metadata::default()
    };
    let data = serde_json::from_value(data(template)).unwrap();
    Arc::new(Revision {
        metadata,
        revision: number,
        data,
    })
}

fn history<'a>(
    template: &'a Value,
    revisions: &'a [Arc<Revision>],
    in_use: &'a BTreeSet<&'a str>,
) -> History<'a> {
    History {
        namespace: "shop",
        name: "web",
        template,
        revisions,
        in_use,
        collisions: 0,
    }
}

fn recognised(template: &Value, revisions: &[Arc<Revision>], in_use: &[&str]) -> Recognised {
    history(template, revisions, &in_use.iter().copied().collect()).recognise()
}

fn owner() -> Value {
    json!({"apiVersion": V1BETA1, "kind": "UnitedDeployment", "name": "web", "uid": "u", "controller": true})
}

fn with(template: &Value, path: &str, value: Value) -> Value {
    let mut template = template.clone();
    let (holder, field) = path.rsplit_once('/').unwrap();
    let mut at = &mut template;
    for key in holder.split('/').skip(1) {
        at = match key.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[key],
        };
    }
    at[field] = value;
    template
}

#[test]
fn data_and_name_are_openkruise_s() {
    for fact in facts() {
        let data = data(&fact.template);
        assert_eq!(revision::form::text(&data), fact.data, "{}", fact.what);
        assert_eq!(
            revision::revision_name(&fact.workload, &revision::hash(&data, 0)),
            fact.name,
            "{}",
            fact.what
        );
    }
}

#[test]
fn written_form_stays_as_it_is() {
    for fact in facts() {
        let once = Value::Object(form::written(&fact.template));
        assert_eq!(Value::Object(form::written(&once)), once, "{}", fact.what);
    }
}

#[test]
fn openkruise_s_revision_is_recognised() {
    for fact in facts() {
        let revision = fact.revision(4);
        assert_eq!(
            recognised(&fact.stored(), std::slice::from_ref(&revision), &[]),
            Recognised::Newest(revision.clone()),
            "{}",
            fact.what
        );
    }
}

#[test]
fn another_template_is_a_new_revision() {
    let facts = facts();
    for (at, fact) in facts.iter().enumerate() {
        // Facts of 1.9.0 and HEAD can mean the same, and so do templates with zeros written out.
        let is_like = |other: &Fact| {
            meaning::same(
                &form::written(&other.stored()),
                &form::written(&fact.stored()),
            )
        };
        let revisions: Vec<_> = facts
            .iter()
            .enumerate()
            .filter(|(other, it)| *other != at && !is_like(it))
            .map(|(_, it)| it.revision(7))
            .collect();
        assert!(revisions.len() + 4 > facts.len(), "{}", fact.what);
        assert_eq!(
            recognised(&fact.stored(), &revisions, &[]),
            Recognised::New(8),
            "{}",
            fact.what
        );
    }
}

/// Paths below the workload's template, and values that change nothing.
fn harmless(field: &str) -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("/spec/replicas", json!(7)),
        ("/spec/selector", json!({"matchLabels": {"other": "one"}})),
        ("/spec/revisionHistoryLimit", json!(10)),
        ("/spec/minReadySeconds", json!(0)),
        ("/spec/template/spec/restartPolicy", json!("Always")),
        ("/spec/template/spec/dnsPolicy", json!("ClusterFirst")),
        ("/spec/template/spec/securityContext", json!({})),
        (
            "/spec/template/spec/containers/0/imagePullPolicy",
            json!("IfNotPresent"),
        ),
        (
            "/spec/template/spec/containers/0/terminationMessagePath",
            json!("/dev/termination-log"),
        ),
        ("/spec/template/metadata/creationTimestamp", Value::Null),
        ("/metadata/creationTimestamp", Value::Null),
        ("/metadata/annotations", json!({})),
    ];
    let claim = json!([{
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "creationTimestamp": null},
        "spec": {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "1024Mi"}}}, "status": {"phase": "Pending"},
    }]);
    let claims = ("/spec/volumeClaimTemplates", claim);
    all.extend(match field {
        "deploymentTemplate" => vec![
            ("/spec/strategy/type", json!("RollingUpdate")),
            (
                "/spec/strategy/rollingUpdate",
                json!({"maxSurge": "25%", "maxUnavailable": "25%"}),
            ),
            ("/spec/progressDeadlineSeconds", json!(600)),
            ("/spec/paused", json!(false)),
        ],
        "cloneSetTemplate" => vec![
            claims,
            ("/spec/updateStrategy/type", json!("RollingUpdate")),
            (
                "/spec/updateStrategy/rollingUpdate",
                json!({"partition": 3, "maxSurge": 0, "maxUnavailable": "20%"}),
            ),
            (
                "/spec/updateStrategy/rollingUpdate/podUpdatePolicy",
                json!("ReCreate"),
            ),
            ("/spec/scaleStrategy", json!({"enablePVCReuse": false})),
            ("/spec/lifecycle", json!({})),
        ],
        field => {
            let advanced = [
                (
                    "/spec/updateStrategy/rollingUpdate/podUpdatePolicy",
                    json!("ReCreate"),
                ),
                (
                    "/spec/updateStrategy/rollingUpdate/minReadySeconds",
                    json!(0),
                ),
                ("/spec/volumeClaimUpdateStrategy/type", json!("OnDelete")),
                ("/spec/reserveOrdinals", json!([])),
            ];
            let both = [
                claims,
                ("/spec/podManagementPolicy", json!("OrderedReady")),
                ("/spec/serviceName", json!("")),
                ("/spec/ordinals", json!({"start": 0})),
                (
                    "/spec/updateStrategy/rollingUpdate",
                    json!({"partition": 3, "maxUnavailable": 1}),
                ),
                (
                    "/spec/persistentVolumeClaimRetentionPolicy",
                    json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
                ),
            ];
            let is_advanced = field == "advancedStatefulSetTemplate";
            both.into_iter()
                .chain(advanced.into_iter().filter(|_| is_advanced))
                .collect()
        }
    });
    all
}

/// Paths and values that make another revision.
fn changes(field: &str) -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("/metadata/labels/tier", json!("back")),
        ("/metadata/annotations/note", json!("<new>")),
        ("/spec/revisionHistoryLimit", json!(9)),
        ("/spec/template/metadata/labels/tier", json!("back")),
        ("/spec/template/spec/containers/0/image", json!("web:v2")),
        (
            "/spec/template/spec/terminationGracePeriodSeconds",
            json!(31),
        ),
        ("/spec/newField", json!(false)),
        ("/spec/template/spec/newField", json!({"a": 1})),
    ];
    all.extend(match field {
        "deploymentTemplate" => vec![
            ("/spec/minReadySeconds", json!(1)),
            ("/spec/strategy/type", json!("Recreate")),
            ("/spec/strategy/rollingUpdate/maxSurge", json!(0)),
            ("/spec/progressDeadlineSeconds", json!(601)),
            ("/spec/paused", json!(true)),
        ],
        "cloneSetTemplate" => vec![
            (
                "/spec/volumeClaimTemplates/0/spec/resources/requests/storage",
                json!("2Gi"),
            ),
            ("/spec/progressDeadlineSeconds", json!(600)),
            ("/spec/updateStrategy/type", json!("OnDelete")),
            (
                "/spec/updateStrategy/rollingUpdate/maxUnavailable",
                json!(1),
            ),
            ("/spec/scaleStrategy/enablePVCReuse", json!(true)),
            ("/spec/lifecycle/preDelete/markPodNotReady", json!(true)),
        ],
        _ => vec![
            ("/spec/volumeClaimTemplates/0/metadata/name", json!("logs")),
            ("/spec/podManagementPolicy", json!("Parallel")),
            ("/spec/serviceName", json!("web")),
            ("/spec/ordinals/start", json!(1)),
            (
                "/spec/updateStrategy/rollingUpdate/maxUnavailable",
                json!(2),
            ),
            ("/spec/updateStrategy/type", json!("OnDelete")),
        ],
    });
    all
}

const KINDS: [&str; 4] = [
    "statefulSetTemplate",
    "advancedStatefulSetTemplate",
    "cloneSetTemplate",
    "deploymentTemplate",
];

/// The bare template of a kind, with a claim if it can have one, and the paths below it.
fn bare(field: &str) -> Value {
    let template = of_kind(field).template;
    let claim = json!([{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]);
    if field == "deploymentTemplate" {
        template
    } else {
        with(
            &template,
            &format!("/{field}/spec/volumeClaimTemplates"),
            claim,
        )
    }
}

#[test]
fn default_keeps_revision_and_change_makes_one() {
    for field in KINDS {
        let template = bare(field);
        let revisions = [named("web-a", 3, &template)];
        for (path, value) in harmless(field) {
            let changed = with(&template, &format!("/{field}{path}"), value);
            assert_eq!(
                recognised(&changed, &revisions, &[]),
                Recognised::Newest(revisions[0].clone()),
                "{field}{path}"
            );
        }
        for (path, value) in changes(field) {
            let changed = with(&template, &format!("/{field}{path}"), value);
            assert_eq!(
                recognised(&changed, &revisions, &[]),
                Recognised::New(4),
                "{field}{path}"
            );
        }
    }
}

proptest! {
    /// The name that a workload has stays, regardless of the defaults that are spelt out, and
    /// changes with any real change.
    #[test]
    fn spelling_keeps_name_and_meaning(
        field in prop::sample::select(KINDS.to_vec()),
        spelt in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        held in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        change in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (harmless, changes) = (harmless(field), changes(field));
        let spell = |of: &[prop::sample::Index]| of.iter().fold(bare(field), |template, at| {
            let (path, value) = at.get(&harmless);
            with(&template, &format!("/{field}{path}"), value.clone())
        });
        let template = spell(&spelt);
        let revision = named("web-a", 1, &spell(&held));
        prop_assert!(meaning::same(&super::held(&revision), &form::written(&template)));
        let template = match change.map(|at| at.get(&changes)) {
            Some((path, value)) => with(&template, &format!("/{field}{path}"), value.clone()),
            None => template,
        };
        let found = recognised(&template, std::slice::from_ref(&revision), &["web-a"]);
        prop_assert_eq!(found, if change.is_some() { Recognised::New(2) } else { Recognised::Newest(revision) });
        let again: Value = serde_json::from_str(&revision::form::text(&data(&template))).unwrap();
        prop_assert_eq!(again, data(&template));
    }
}

#[test]
fn workload_s_revision_comes_before_newer_one() {
    let template = deployment().template;
    let spelt = with(&template, "/deploymentTemplate/spec/paused", json!(false));
    let spelt = with(&spelt, "/deploymentTemplate/spec/replicas", json!(2));
    let other = with(&template, "/deploymentTemplate/spec/paused", json!(true));
    let revisions = [
        named("web-a", 1, &template),
        named("web-b", 2, &spelt),
        named("web-c", 3, &other),
    ];
    let older = |at: usize| Recognised::Older(revisions[at].clone(), 4);
    let table: [(&[&str], Recognised); 5] = [
        (&["web-a"], older(0)),
        (&["web-b"], older(1)),
        (&["web-a", "web-b"], older(1)),
        (&["web-c"], older(1)),
        (&[], older(1)),
    ];
    for (in_use, expected) in table {
        assert_eq!(
            recognised(&template, &revisions, in_use),
            expected,
            "{in_use:?}"
        );
    }
    assert_eq!(
        recognised(&other, &revisions, &["web-a"]),
        Recognised::Newest(revisions[2].clone())
    );
}

#[test]
fn new_revision_has_form_of_newest() {
    // A v1alpha1 template without `updateStrategy.type` is stored with the default's name.
    let is_whole = |fact: &Fact| {
        fact.version == "v1beta1"
            || fact
                .template
                .pointer("/cloneSetTemplate/spec/updateStrategy")
                .is_some()
    };
    for fact in facts()
        .into_iter()
        .filter(|fact| fact.workload == "web" && is_whole(fact))
    {
        // The newest revision has another image, and shows the form alone.
        let fields = fact.template.as_object().unwrap();
        let (field, _) = fields
            .iter()
            .find(|(_, template)| template.is_object())
            .unwrap();
        let image = format!("/{field}/spec/template/spec/containers/0/image");
        let newest = Fact {
            template: with(&fact.template, &image, json!("old:1")),
            ..fact.clone()
        };
        let newest = Fact {
            data: revision::form::text(&data(&newest.template)),
            name: "web-old".to_owned(),
            ..newest
        };
        let (stored, revisions, in_use) = (fact.stored(), [newest.revision(3)], BTreeSet::new());
        let body = history(&stored, &revisions, &in_use).new_revision(owner(), 4);
        let metadata = &body["metadata"];
        let api_version = format!("apps.kruise.io/{}", fact.version);
        assert_eq!(
            revision::form::text(&body["data"]),
            fact.data,
            "{}",
            fact.what
        );
        assert_eq!(metadata["name"], fact.name, "{}", fact.what);
        assert_eq!(
            metadata["ownerReferences"][0]["apiVersion"], api_version,
            "{}",
            fact.what
        );
        let written: Arc<Revision> = Arc::new(serde_json::from_value(body).unwrap());
        assert_eq!(
            recognised(&stored, std::slice::from_ref(&written), &[]),
            Recognised::Newest(written),
            "{}",
            fact.what
        );
    }
}

#[test]
fn new_revision_is_labelled_as_openkruise_s() {
    for (field, expected) in KINDS.map(|field| (field, field != CLONE_SET)) {
        let template = of_kind(field).template;
        let in_use = BTreeSet::new();
        let body = history(&template, &[], &in_use).new_revision(owner(), 1);
        let hash = revision::short(body["metadata"]["name"].as_str().unwrap()).to_owned();
        let labels = if expected {
            json!({"app": "web", HASH_LABEL: hash})
        } else {
            json!({HASH_LABEL: hash})
        };
        assert_eq!(body["metadata"]["labels"], labels, "{field}");
        assert_eq!(body["metadata"]["namespace"], "shop");
        assert_eq!(
            (&body["revision"], &body["metadata"]["ownerReferences"]),
            (&json!(1), &json!([owner()]))
        );
    }
}

#[test]
fn taken_name_gives_next_one() {
    let fact = deployment();
    let other = with(
        &fact.template,
        "/deploymentTemplate/spec/paused",
        json!(true),
    );
    let (data, in_use) = (data(&fact.template), BTreeSet::new());
    let name = |collisions| revision::revision_name("web", &revision::hash(&data, collisions));
    let revisions = [named(&name(0), 1, &other), named(&name(1), 2, &other)];
    for (collisions, expected) in [(0, 2), (1, 2), (3, 3)] {
        let history = History {
            collisions,
            ..history(&fact.template, &revisions, &in_use)
        };
        assert_eq!(
            history.new_revision(owner(), 3)["metadata"]["name"],
            name(expected),
            "{collisions}"
        );
    }
}

#[test]
fn live_revisions_stay_beyond_limit() {
    let template = deployment().template;
    let revisions: Vec<_> = (1..=6)
        .map(|number| named(&format!("web-{number}"), number, &template))
        .collect();
    let in_use = ["web-1"].into();
    let names = |limit| {
        let gone = history(&template, &revisions, &in_use).beyond_limit(limit, &["web-3", "web-6"]);
        gone.iter()
            .map(|one| one.metadata.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(2), ["web-2"]);
    assert_eq!(names(0), ["web-2", "web-4", "web-5"]);
    assert_eq!(names(10), [""; 0]);
}

#[test]
fn data_of_any_shape_is_read() {
    let template = deployment().template;
    for text in [
        "null",
        "7",
        "{}",
        r#"{"spec":7}"#,
        r#"{"spec":{"template":[]}}"#,
        r#"{"spec":{"template":{"cloneSetTemplate":{"metadata":1,"spec":"x"}}}}"#,
    ] {
        for version in ["v1alpha1", "v1beta1"] {
            let fact = Fact {
                data: text.to_owned(),
                version: version.to_owned(),
                ..deployment()
            };
            assert_eq!(
                recognised(&template, &[fact.revision(2)], &[]),
                Recognised::New(3),
                "{text}"
            );
        }
    }
    for odd in [
        json!(null),
        json!([]),
        json!({"deploymentTemplate": {"spec": {"template": 3, "selector": []}}}),
    ] {
        let revision = named("web-a", 1, &odd);
        assert_eq!(
            recognised(&odd, std::slice::from_ref(&revision), &[]),
            Recognised::Newest(revision),
            "{odd}"
        );
    }
}
