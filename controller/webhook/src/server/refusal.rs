//! Answers to requests that are no reviews, and to reviews that nothing can answer.

use berth_http::BodyError;
use http::StatusCode;

use super::reviews::pod_review::Unanswered;

/// A refusal before any review could be read.
pub(super) struct Refusal(pub(super) StatusCode, pub(super) String);

pub(super) fn unread(error: BodyError) -> Refusal {
    Refusal(error.status(), error.to_string())
}

pub(super) fn unanswered(error: Unanswered) -> Refusal {
    match error {
        Unanswered::NoReview(error) => no_review(&error),
        Unanswered::NotYet(error) => Refusal(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

pub(super) fn no_review(error: &serde_json::Error) -> Refusal {
    Refusal(
        StatusCode::BAD_REQUEST,
        format!("the body is no review: {error}"),
    )
}
