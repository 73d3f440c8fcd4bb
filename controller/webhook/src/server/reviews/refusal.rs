//! Answers to requests that are no reviews, and to reviews that nothing can answer.

use berth_http::BodyError;
use http::StatusCode;

use super::pod_review::Unanswered;

/// A refusal before any review could be read.
pub(in crate::server) struct Refusal(
    pub(in crate::server) StatusCode,
    pub(in crate::server) String,
);

pub(in crate::server) fn unread(error: BodyError) -> Refusal {
    Refusal(error.status(), error.to_string())
}

pub(in crate::server) fn unanswered(error: Unanswered) -> Refusal {
    match error {
        Unanswered::NoReview(error) => no_review(&error),
        Unanswered::NotYet(error) => Refusal(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

pub(in crate::server) fn no_review(error: &serde_json::Error) -> Refusal {
    Refusal(
        StatusCode::BAD_REQUEST,
        format!("the body is no review: {error}"),
    )
}
