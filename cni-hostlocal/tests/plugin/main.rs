//! The program itself, called as runtimes call it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

mod interoperation;
mod kept;
mod lost;
mod operator;
mod reference_cases;
mod tool;
