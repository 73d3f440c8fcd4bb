use std::collections::BTreeMap;

use berth_api::v1beta1::nodeimage::{ImageSpec, ImageTagSpec, NodeImageSpec};
use k8s_openapi::api::authentication::v1::UserInfo;
use tonic::Code;

use super::*;

const DAEMON: &str = "system:serviceaccount:kruise-system:kruise-daemon";

fn review(audiences: &[&str], user: &str, nodes: &[&str]) -> TokenReviewStatus {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<String>>();
    let extra = BTreeMap::from([(NODE_CLAIM.to_owned(), owned(nodes))]);
    TokenReviewStatus {
        authenticated: Some(true),
        audiences: Some(owned(audiences)),
        user: Some(UserInfo { username: Some(user.into()), extra: Some(extra), ..UserInfo::default() }),
        error: None,
    }
}

#[test]
fn only_a_daemons_own_token_with_a_node_is_let_in() {
    let good = review(&[TOKEN_AUDIENCE], DAEMON, &["node-1"]);
    assert_eq!(authorise(&good, DAEMON).unwrap(), "node-1");
    let refused = TokenReviewStatus { authenticated: Some(false), error: Some("expired".into()), ..good.clone() };
    let no_extra = TokenReviewStatus {
        user: Some(UserInfo { username: Some(DAEMON.into()), ..UserInfo::default() }),
        ..good.clone()
    };
    let table = [
        ("not authenticated", refused, Code::Unauthenticated, "expired"),
        ("no answer", TokenReviewStatus::default(), Code::Unauthenticated, TOKEN_AUDIENCE),
        (
            "the apiserver's audience",
            review(&["https://kubernetes.default.svc"], DAEMON, &["node-1"]),
            Code::Unauthenticated,
            TOKEN_AUDIENCE,
        ),
        (
            "another account",
            review(&[TOKEN_AUDIENCE], "system:serviceaccount:default:default", &["node-1"]),
            Code::PermissionDenied,
            "default:default",
        ),
        ("no node", review(&[TOKEN_AUDIENCE], DAEMON, &[]), Code::PermissionDenied, NODE_CLAIM),
        ("an empty node", review(&[TOKEN_AUDIENCE], DAEMON, &[""]), Code::PermissionDenied, NODE_CLAIM),
        ("two nodes", review(&[TOKEN_AUDIENCE], DAEMON, &["node-1", "node-2"]), Code::PermissionDenied, NODE_CLAIM),
        ("no claims at all", no_extra, Code::PermissionDenied, NODE_CLAIM),
    ];
    for (what, review, code, says) in table {
        let status = authorise(&review, DAEMON).unwrap_err();
        assert_eq!(status.code(), code, "{what}");
        assert!(status.message().contains(says), "{what}: {}", status.message());
    }
}

#[test]
fn only_what_the_node_image_names_is_answered() {
    let secret = ReferenceObject { namespace: "default".into(), name: "registry".into(), ..ReferenceObject::default() };
    let tag = ImageTagSpec { tag: "1".into(), ..ImageTagSpec::default() };
    let image = ImageSpec { pull_secrets: vec![secret.clone()], tags: vec![tag], ..ImageSpec::default() };
    let spec = NodeImageSpec { images: [("app".to_owned(), image)].into(), ..NodeImageSpec::default() };
    let object = NodeImage::new("node-1", spec);
    assert_eq!(named(&object, "app", "1"), Some([secret].as_slice()));
    assert_eq!(named(&object, "app", "2"), None);
    assert_eq!(named(&object, "web", "1"), None);
}

#[test]
fn a_token_must_be_shown() {
    let mut request = Request::new(GetRequest::default());
    assert_eq!(bearer(&request).unwrap_err().code(), Code::Unauthenticated);
    for (header, token) in [("Bearer abc", Some("abc")), ("Bearer  ", None), ("Basic abc", None)] {
        request.metadata_mut().insert("authorization", header.parse().unwrap());
        assert_eq!(bearer(&request).ok(), token, "{header}");
    }
}
