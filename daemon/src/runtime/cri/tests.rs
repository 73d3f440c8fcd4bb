use super::*;

#[tokio::test]
async fn a_runtime_that_starts_has_refused_nothing() {
    let cri = Cri::at(Path::new("/run/none.sock"));
    let said = |message: &str| cri.error(&tonic::Status::unknown(message));
    assert!(matches!(
        said("server is not initialized yet"),
        CriError::Away { .. }
    ));
    assert!(matches!(
        said("failed to pull and unpack image: not found"),
        CriError::Refused(_)
    ));
    let old = cri.error(&tonic::Status::unimplemented(
        "unknown service runtime.v1.RuntimeService",
    ));
    assert!(
        old.to_string()
            .contains("is it a runtime that serves CRI v1?"),
        "{old}"
    );
}
