use anyhow::Context;

use super::*;

#[test]
fn sentence_has_no_control_characters() {
    let error = anyhow::anyhow!("pod \u{1b}[2Jweb").context("cannot read");
    assert_eq!(sentence(&error), "cannot read: pod \\u{1b}[2Jweb");
}

#[test]
fn cause_is_named_once() {
    let error: anyhow::Error = Err::<(), _>(anyhow::anyhow!("it is gone"))
        .context("web: it is gone")
        .unwrap_err();
    assert_eq!(sentence(&error), "web: it is gone");
}

#[test]
fn connections_fail_in_words_of_users() {
    let failed = |message: &str| {
        anyhow::Error::from(Failed {
            message: message.to_owned(),
            ..Failed::default()
        })
    };
    let refused = "ServiceError: client error (Connect): tcp connect error: Connection refused (os error 111)";
    let service =
        kube::Error::Service(std::io::Error::other("tcp connect error: Connection refused").into());
    let begin = "the apiserver cannot be reached: ";
    let cases = [
        (
            failed(refused),
            format!("{begin}it refuses connections; {REACH}"),
        ),
        (
            failed(refused).context("the apiserver at https://a does not answer"),
            format!("the apiserver at https://a does not answer: it refuses connections; {REACH}"),
        ),
        (
            service.into(),
            format!("{begin}it refuses connections; {REACH}"),
        ),
        (
            failed(
                "ServiceError: client error (Connect): dns error: failed to lookup address information: Name or service not known",
            ),
            format!("{begin}its name cannot be resolved; {REACH}"),
        ),
        (
            failed("ServiceError: client error (Connect): invalid peer certificate: UnknownIssuer"),
            format!("{begin}its certificate is not trusted (UnknownIssuer); {TRUST}"),
        ),
        (
            failed("HyperError: odd: end"),
            format!("{begin}end; {REACH}"),
        ),
        (
            Failed::unsent("name is too long").into(),
            "name is too long".to_owned(),
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(sentence(&error), expected, "{error:?}");
        assert_eq!(is_of_connection(&error), expected != "name is too long");
    }
}
