use berth_api::v1beta1::nodeimage::{ImageStatus, ImageTagStatus};

use super::*;

fn status(phase: ImagePullPhase, progress: i32, message: &str) -> NodeImageStatus {
    let tag = ImageTagStatus {
        phase,
        progress,
        bytes_done: Some(progress.into()),
        message: message.into(),
        ..ImageTagStatus::default()
    };
    let images = [("app".to_owned(), ImageStatus { tags: vec![tag] })].into();
    NodeImageStatus {
        desired: 1,
        image_statuses: images,
        ..NodeImageStatus::default()
    }
}

#[test]
fn only_progress_can_wait() {
    use ImagePullPhase::{Pulling, Succeeded};
    let old = status(Pulling, 10, "");
    let table = [
        (status(Pulling, 10, ""), Urgency::Not),
        (status(Pulling, 20, ""), Urgency::Progress),
        (status(Pulling, 20, "try 2 of 4"), Urgency::Now),
        (status(Succeeded, 100, ""), Urgency::Now),
        (NodeImageStatus::default(), Urgency::Now),
    ];
    for (new, expected) in table {
        assert_eq!(urgency(&old, &new), expected, "{new:?}");
    }
}
