//! The plan by a table, and its one guarantee by a simulation: at every instant, each client that
//! trusts a published bundle trusts the served certificates.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

use super::issue;
use super::plan::{Change, Leaf, Policy, Span, Stored, plan};
use super::store::Material;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn span(from: i64, to: i64) -> Span {
    Span {
        not_before: at(from),
        not_after: at(to),
    }
}

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn policy() -> Policy {
    Policy {
        ca_validity: seconds(600),
        cert_validity: seconds(60),
        names: ["a".to_owned()].into(),
    }
}

fn leaf(from: i64, to: i64, issuer: Option<usize>) -> Option<Leaf> {
    Some(Leaf {
        span: span(from, to),
        issuer,
        names: ["a".to_owned()].into(),
    })
}

/// A description, the second, the stored material, since when it is published, and the change that
/// is due.
type Case = (&'static str, i64, Stored, Option<i64>, Option<Change>);

#[test]
fn the_plan_by_table() {
    let good = Stored {
        authorities: vec![span(0, 600)],
        can_sign: true,
        leaf: leaf(0, 60, Some(0)),
    };
    let rotating = Stored {
        authorities: vec![span(400, 1000), span(0, 600)],
        leaf: leaf(380, 440, Some(1)),
        ..good.clone()
    };
    // Made at 410, and dated back.
    let rotated = Stored {
        leaf: leaf(350, 470, Some(0)),
        ..rotating.clone()
    };
    let early = Stored {
        authorities: vec![span(100, 700), span(0, 600)],
        leaf: leaf(0, 60, Some(1)),
        ..good.clone()
    };
    let nameless = Leaf {
        names: BTreeSet::new(),
        ..leaf(0, 60, Some(0)).unwrap()
    };
    let cases: [Case; 23] = [
        (
            "nothing is there",
            0,
            Stored::default(),
            None,
            Some(Change::Begin),
        ),
        ("all is good", 10, good.clone(), Some(0), None),
        ("all is good but for a place", 10, good.clone(), None, None),
        (
            "the certificate ends soon",
            41,
            good.clone(),
            Some(0),
            Some(Change::IssueLeaf),
        ),
        (
            "the certificate ends soon, a place was wiped",
            41,
            good.clone(),
            None,
            None,
        ),
        (
            "the certificate ends soon, a place was repaired just now",
            41,
            good.clone(),
            Some(40),
            None,
        ),
        (
            "the certificate has expired, with any bundle",
            61,
            good.clone(),
            None,
            Some(Change::IssueLeaf),
        ),
        (
            "the certificate is not valid yet",
            10,
            Stored {
                leaf: leaf(11, 71, Some(0)),
                ..good.clone()
            },
            None,
            Some(Change::IssueLeaf),
        ),
        (
            "the newest authority is not valid yet",
            10,
            early.clone(),
            Some(0),
            Some(Change::AddAuthority),
        ),
        (
            "the authority of the certificate is not valid yet",
            10,
            Stored {
                authorities: vec![span(0, 600), span(100, 700)],
                leaf: leaf(0, 60, Some(1)),
                ..good.clone()
            },
            Some(0),
            Some(Change::IssueLeaf),
        ),
        (
            "what was not valid yet is now",
            101,
            Stored {
                authorities: vec![span(100, 700)],
                leaf: leaf(100, 160, Some(0)),
                ..early
            },
            Some(0),
            None,
        ),
        (
            "there is no certificate",
            10,
            Stored {
                leaf: None,
                ..good.clone()
            },
            None,
            Some(Change::IssueLeaf),
        ),
        (
            "the certificate is another authority's",
            10,
            Stored {
                leaf: leaf(0, 60, None),
                ..good.clone()
            },
            None,
            Some(Change::IssueLeaf),
        ),
        (
            "a name is missing",
            10,
            Stored {
                leaf: Some(nameless),
                ..good.clone()
            },
            Some(0),
            Some(Change::IssueLeaf),
        ),
        (
            "the authority ends soon",
            401,
            Stored {
                leaf: leaf(380, 440, Some(0)),
                ..good.clone()
            },
            Some(0),
            Some(Change::AddAuthority),
        ),
        (
            "the authority has ended",
            601,
            Stored {
                leaf: leaf(570, 630, Some(0)),
                ..good.clone()
            },
            Some(0),
            Some(Change::Begin),
        ),
        (
            "the authority's key is lost",
            10,
            Stored {
                can_sign: false,
                ..good.clone()
            },
            Some(0),
            Some(Change::AddAuthority),
        ),
        (
            "the authority's key and the certificate are lost",
            10,
            Stored {
                can_sign: false,
                leaf: None,
                ..good
            },
            Some(0),
            Some(Change::Begin),
        ),
        (
            "the new authority is not published",
            405,
            rotating.clone(),
            None,
            None,
        ),
        (
            "the new authority was published just now",
            405,
            rotating.clone(),
            Some(403),
            None,
        ),
        (
            "the new authority is published",
            405,
            rotating,
            Some(401),
            Some(Change::IssueLeaf),
        ),
        (
            "the old certificate may still be served",
            415,
            rotated.clone(),
            Some(401),
            None,
        ),
        (
            "the old certificate is served nowhere",
            421,
            rotated,
            Some(401),
            Some(Change::DropOldAuthorities),
        ),
    ];
    for (name, now, stored, published, change) in cases {
        let plan = plan(at(now), &stored, published.map(at), &policy());
        assert_eq!(plan.change, change, "{name}: {}", plan.reason);
        assert!(
            plan.change.is_some() || plan.look_again > at(now),
            "{name}: looks again in the past"
        );
    }
}

/// A world of whole seconds: one Secret, one place that holds a bundle, and replicas that make
/// passes at times of their own.
struct World {
    policy: Policy,
    now: Timestamp,
    material: Material,
    published: String,
    published_since: Option<Timestamp>,
    /// The certificate that each replica serves.
    served: Vec<String>,
}

impl World {
    fn step(&mut self, replica: usize) {
        self.served[replica].clone_from(&self.material.tls_cert);
        if !self.material.authorities.is_empty() && self.published != self.material.bundle() {
            self.published = self.material.bundle();
            self.published_since = None;
        }
        let everywhere = !self.material.authorities.is_empty();
        self.published_since = everywhere.then(|| self.published_since.unwrap_or(self.now));
        let plan = plan(
            self.now,
            &self.material.facts(),
            self.published_since,
            &self.policy,
        );
        if let Some(change) = plan.change {
            self.material = self.material.after(change, self.now, &self.policy).unwrap();
        }
    }

    /// Whether a client that holds this bundle trusts what the replica serves now.
    fn trusts(&self, bundle: &[String], replica: usize) -> bool {
        let mut roots = rustls::RootCertStore::empty();
        for authority in bundle {
            roots
                .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
                .unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        let leaf = CertificateDer::from_pem_slice(self.served[replica].as_bytes()).unwrap();
        let now =
            UnixTime::since_unix_epoch(Duration::from_secs(self.now.as_second().unsigned_abs()));
        verifier
            .verify_server_cert(&leaf, &[], &ServerName::try_from("a").unwrap(), &[], now)
            .is_ok()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn published_bundle_trusts_all_served_certificates(
        cert in 30_i64..90, ca in 60_i64..240, order in proptest::collection::vec(0_usize..3, 300)
    ) {
        let policy = Policy { ca_validity: seconds(ca), cert_validity: seconds(cert), names: ["a".to_owned()].into() };
        let mut world = World {
            policy, now: at(0), material: Material::default(), published: String::new(), published_since: None,
            served: vec![String::new(); 3],
        };
        for replica in [0, 0, 0, 1, 2] {
            world.step(replica);
        }
        let mut late = world.material.authorities.clone();
        for (second, replica) in (1_i64..).zip(order) {
            world.now = at(second);
            world.step(replica);
            // Every replica makes a pass within a second or two: they watch the Secret.
            world.step((replica + 1) % 3);
            world.step((replica + 2) % 3);
            for replica in 0..3 {
                prop_assert!(world.trusts(&world.material.authorities, replica), "second {second}: not trusted by the new bundle");
                prop_assert!(world.trusts(&late, replica), "second {second}: not trusted by the bundle of a second ago");
            }
            prop_assert!(world.material.authorities.len() <= 2, "second {second}: more than two authorities");
            late = world.material.authorities.clone();
        }
    }
}

#[test]
fn secret_keeps_its_certificates() {
    let policy = policy();
    let begun = Material::default()
        .after(Change::Begin, at(0), &policy)
        .unwrap();
    assert!(Material::from_data(&begun.to_data()) == begun);
    let facts = begun.facts();
    assert!(facts.can_sign);
    assert_eq!(facts.leaf.as_ref().and_then(|leaf| leaf.issuer), Some(0));
    assert_eq!(
        facts.leaf.map(|leaf| leaf.names),
        Some(policy.names.clone())
    );

    let added = begun.after(Change::AddAuthority, at(400), &policy).unwrap();
    assert_eq!(added.tls_cert, begun.tls_cert, "what is served stays");
    assert_eq!(added.authorities[1], begun.authorities[0]);
    assert_eq!(added.facts().leaf.and_then(|leaf| leaf.issuer), Some(1));
    let issued = added.after(Change::IssueLeaf, at(410), &policy).unwrap();
    assert_eq!(issued.facts().leaf.and_then(|leaf| leaf.issuer), Some(0));
    let dropped = issued
        .after(Change::DropOldAuthorities, at(430), &policy)
        .unwrap();
    assert_eq!(dropped.bundle(), added.authorities[0]);
}

#[test]
fn a_certificate_carries_every_name_and_ends_with_its_authority() {
    let names = issue::names("ns", &["hook".to_owned()], Some("10.0.0.7"));
    assert!(
        names.contains("hook.ns.svc") && names.contains("10.0.0.7"),
        "{names:?}"
    );
    let policy = Policy {
        ca_validity: seconds(30),
        cert_validity: seconds(60),
        names: names.clone(),
    };
    let begun = Material::default()
        .after(Change::Begin, at(0), &policy)
        .unwrap()
        .facts();
    let leaf = begun.leaf.unwrap();
    assert_eq!(leaf.names, names);
    assert_eq!(leaf.span.not_after, at(30));
    // A controller inside the cluster has no host of its own, and keeps the host of the one outside
    // when it issues.
    let inside = Policy {
        names: issue::names("ns", &["hook".to_owned()], None),
        ..policy.clone()
    };
    let both = Material::default()
        .after(Change::Begin, at(0), &policy)
        .unwrap();
    let again = both
        .after(Change::IssueLeaf, at(1), &inside)
        .unwrap()
        .facts();
    assert_eq!(again.leaf.unwrap().names, names);
}

#[test]
fn rubbish_in_the_secret_reads_as_nothing() {
    let data = |text: &str| {
        ["ca.crt", "ca.key", "tls.crt", "tls.key"]
            .map(|key| {
                (
                    key.to_owned(),
                    k8s_openapi::ByteString(text.as_bytes().to_vec()),
                )
            })
            .into()
    };
    for text in [
        "",
        "rubbish",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    ] {
        let facts = Material::from_data(&data(text)).facts();
        assert_eq!(facts, Stored::default(), "{text:?}");
        assert_eq!(
            plan(at(0), &facts, None, &policy()).change,
            Some(Change::Begin)
        );
    }
}

#[test]
fn certificate_of_clock_one_day_ahead_is_valid() {
    let policy = Policy {
        ca_validity: seconds(864_000),
        cert_validity: seconds(345_600),
        ..policy()
    };
    let (now, ahead) = (at(0), at(86_000));
    let begun = Material::default()
        .after(Change::Begin, ahead, &policy)
        .unwrap();
    let plan = plan(now, &begun.facts(), None, &policy);
    assert_eq!(plan.change, None, "{}", plan.reason);
    assert!(begun.facts().leaf.unwrap().span.has_begun(now));
}

#[test]
fn certificate_of_clock_far_ahead_is_replaced() {
    let policy = policy();
    let (now, ahead) = (at(0), at(3000));
    let mut material = Material::default()
        .after(Change::Begin, ahead, &policy)
        .unwrap();
    for change in [Change::AddAuthority, Change::IssueLeaf] {
        assert_eq!(
            plan(now, &material.facts(), None, &policy).change,
            Some(change)
        );
        material = material.after(change, now, &policy).unwrap();
    }
    let facts = material.facts();
    assert_eq!(plan(now, &facts, None, &policy).change, None);
    assert!(
        facts
            .leaf
            .is_some_and(|leaf| leaf.issuer == Some(0) && leaf.span.has_begun(now))
    );
    assert!(facts.authorities[0].has_begun(now));
}
