use std::collections::BTreeMap;

use berth_api::v1beta1::nodeimage::{ImageSpec, ImageTagSpec, NodeImageSpec};
use berth_grpc::TOKEN_AUDIENCE;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{TokenReviewStatus, UserInfo};
use k8s_openapi::api::core::v1::ObjectReference;

use super::tokens::{NODE_CLAIM, authorise};
use super::*;

mod calls;
mod nodes;

const DAEMON: &str = "system:serviceaccount:kruise-system:kruise-daemon";

fn review(audiences: &[&str], user: &str, nodes: &[&str]) -> TokenReviewStatus {
    let owned = |texts: &[&str]| {
        texts
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<String>>()
    };
    let extra = BTreeMap::from([(NODE_CLAIM.to_owned(), owned(nodes))]);
    TokenReviewStatus {
        authenticated: Some(true),
        audiences: Some(owned(audiences)),
        user: Some(UserInfo {
            username: Some(user.into()),
            extra: Some(extra),
            ..UserInfo::default()
        }),
        error: None,
    }
}

#[test]
fn only_a_daemons_own_token_with_a_node_is_let_in() {
    let good = review(&[TOKEN_AUDIENCE], DAEMON, &["node-1"]);
    assert_eq!(authorise(&good, DAEMON).unwrap().as_str(), "node-1");
    let refused = TokenReviewStatus {
        authenticated: Some(false),
        error: Some("expired".into()),
        ..good.clone()
    };
    let no_extra = TokenReviewStatus {
        user: Some(UserInfo {
            username: Some(DAEMON.into()),
            ..UserInfo::default()
        }),
        ..good.clone()
    };
    let table = [
        (
            "not authenticated",
            refused,
            Code::Unauthenticated,
            "expired",
        ),
        (
            "no answer",
            TokenReviewStatus::default(),
            Code::Unauthenticated,
            TOKEN_AUDIENCE,
        ),
        (
            "the apiserver's audience",
            review(&["https://kubernetes.default.svc"], DAEMON, &["node-1"]),
            Code::Unauthenticated,
            TOKEN_AUDIENCE,
        ),
        (
            "another account",
            review(
                &[TOKEN_AUDIENCE],
                "system:serviceaccount:default:default",
                &["node-1"],
            ),
            Code::PermissionDenied,
            "default:default",
        ),
        (
            "no node",
            review(&[TOKEN_AUDIENCE], DAEMON, &[]),
            Code::PermissionDenied,
            NODE_CLAIM,
        ),
        (
            "an empty node",
            review(&[TOKEN_AUDIENCE], DAEMON, &[""]),
            Code::PermissionDenied,
            NODE_CLAIM,
        ),
        (
            "a node that is a path",
            review(&[TOKEN_AUDIENCE], DAEMON, &["../x?y#"]),
            Code::PermissionDenied,
            "no object's name",
        ),
        (
            "two nodes",
            review(&[TOKEN_AUDIENCE], DAEMON, &["node-1", "node-2"]),
            Code::PermissionDenied,
            NODE_CLAIM,
        ),
        (
            "no claims at all",
            no_extra,
            Code::PermissionDenied,
            NODE_CLAIM,
        ),
    ];
    for (what, review, code, says) in table {
        let status = authorise(&review, DAEMON).unwrap_err();
        assert_eq!(status.code(), code, "{what}");
        assert!(
            status.message().contains(says),
            "{what}: {}",
            status.message()
        );
    }
}

/// An image with one entry per tag: the tag and the namespaces of its owners.
fn image(secrets: &[&ReferenceObject], tags: &[(&str, &[&str])]) -> NodeImage {
    let entry = |(tag, owners): &(&str, &[&str])| ImageTagSpec {
        tag: (*tag).into(),
        owner_references: owners
            .iter()
            .map(|namespace| ObjectReference {
                kind: Some("ImagePullJob".into()),
                namespace: (!namespace.is_empty()).then(|| (*namespace).into()),
                ..ObjectReference::default()
            })
            .collect(),
        ..ImageTagSpec::default()
    };
    let image = ImageSpec {
        pull_secrets: secrets.iter().map(|secret| (*secret).clone()).collect(),
        tags: tags.iter().map(entry).collect(),
        ..ImageSpec::default()
    };
    NodeImage::new(
        "node-1",
        NodeImageSpec {
            images: [("app".to_owned(), image)].into(),
            ..NodeImageSpec::default()
        },
    )
}

fn secret(namespace: &str) -> ReferenceObject {
    ReferenceObject {
        namespace: namespace.into(),
        name: "registry".into(),
        ..ReferenceObject::default()
    }
}

#[test]
fn only_what_the_node_image_names_is_answered() {
    let secret = secret("default");
    let object = image(&[&secret], &[("1", &["default"])]);
    assert_eq!(named(&object, "app", "1"), Some(vec![&secret]));
    assert_eq!(named(&object, "app", "2"), None);
    assert_eq!(named(&object, "web", "1"), None);
}

#[test]
fn a_tag_is_pulled_with_the_secrets_of_its_own_namespaces_only() {
    let (a, b, hand) = (secret("a"), secret("b"), secret("infra"));
    let tags: [(&str, &[&str]); 5] = [
        ("of-a", &["a"]),
        ("of-b", &["b"]),
        ("of-both", &["a", "b"]),
        ("of-c", &["c"]),
        ("by-hand", &[]),
    ];
    let object = image(&[&a, &b, &hand], &tags);
    let table: [(&str, &[&ReferenceObject]); 5] = [
        ("of-a", &[&a]),
        ("of-b", &[&b]),
        ("of-both", &[&a, &b]),
        ("of-c", &[]),
        ("by-hand", &[&hand]),
    ];
    for (tag, secrets) in table {
        assert_eq!(
            named(&object, "app", tag).as_deref(),
            Some(secrets),
            "{tag}"
        );
    }
    // An owner with an empty namespace stands for a user who added an entry by hand.
    let object = image(&[&a, &hand], &[("of-a", &["a"]), ("by-hand", &[""])]);
    assert_eq!(named(&object, "app", "by-hand"), Some(vec![&hand]));
}

#[test]
fn a_token_must_be_shown() {
    let mut headers = HeaderMap::new();
    assert_eq!(bearer(&headers).unwrap_err().code(), Code::Unauthenticated);
    for (header, token) in [
        ("Bearer abc", Some("abc")),
        ("Bearer  ", None),
        ("Basic abc", None),
    ] {
        headers.insert(AUTHORIZATION, header.parse().unwrap());
        assert_eq!(bearer(&headers).ok(), token, "{header}");
    }
}
