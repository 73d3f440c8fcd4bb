//! Texts that have a meaning by themselves: quantities, percentages, times, image references,
//! flags.

use berth_api::IntOrString;
use berth_api::fields::inplace::wait_for_image;
use berth_api::image::{Reference, join, normalised, pins, same_id, split};
use berth_controller::settings::{flags as controller, gates};
use berth_daemon::flags as daemon;
use berth_daemon::runtime::container_hash;
use berth_workload::objects::intstr::{Round, partition, resolve};
use berth_workload::objects::pod::resources::thousandths;
use berth_workload::update::inplace::kubelet_hash::kubelet_hash;
use berth_workload::update::revision::{self, form};
use clap::Parser;
use serde_json::json;

pub(crate) fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    number_or_percentage(text);
    quantity(text);
    image(text);
    names(text);
    flags(text);
    if let Ok(time) = wait_for_image(text) {
        assert!(time.is_positive());
    }
}

fn number_or_percentage(text: &str) {
    let values = [
        text.parse().ok().map(IntOrString::Int),
        Some(IntOrString::String(text.to_owned())),
    ];
    for value in values.iter().flatten() {
        for total in [0, 1, 7, 100_000, i32::MAX as usize] {
            let (up, down) = (
                resolve(value, total, Round::Up),
                resolve(value, total, Round::Down),
            );
            assert!(
                up >= down || up.is_err(),
                "{value:?} of {total}: {up:?}, {down:?}"
            );
            assert_eq!(up.is_err(), down.is_err());
            assert_eq!(partition(Some(value), total).is_err(), up.is_err());
            assert!(partition(Some(value), total).is_ok_and(|stay| stay <= total) || up.is_err());
        }
    }
}

/// A quantity has one form, which reads back unchanged and has the same value.
fn quantity(text: &str) {
    let of = |text: &str| json!({"metadata": {}, "spec": {"containers": [{"resources": {"limits": {"cpu": text}}}]}});
    let canonical = form::canonical(&of(text));
    assert_eq!(form::canonical(&canonical), canonical, "{text:?}");
    let written = canonical
        .pointer("/spec/containers/0/resources/limits/cpu")
        .and_then(|written| written.as_str());
    if let (Some(before), Some(after)) = (thousandths(text), written.and_then(thousandths)) {
        assert_eq!(before, after, "{text:?} is written as {written:?}");
    }
}

/// An image that the controller accepts is the same image for the daemon.
fn image(text: &str) {
    let full = normalised(text);
    assert_eq!(same_id(text, text), !text.is_empty());
    pins(text, text);
    let reference = Reference::parse(text);
    assert!(
        reference.registry_host().len() <= reference.registry.len()
            && reference.spellings().len() <= 12
    );
    if let Ok((name, tag)) = split(text) {
        let (canonical, joined) = (reference.canonical(), join(&name, &tag));
        assert_eq!(normalised(&full), full, "{text:?}");
        assert_eq!(
            Reference::parse(&joined).canonical(),
            canonical,
            "{text:?} is requested as {joined:?}"
        );
        assert_eq!(split(&joined), Ok((name, tag)), "{text:?}");
        assert_eq!(
            Reference::parse(&canonical).canonical(),
            canonical,
            "{text:?}"
        );
        for spelling in reference.spellings() {
            assert_eq!(
                Reference::parse(&spelling).canonical(),
                canonical,
                "{text:?} spelt {spelling:?}"
            );
            assert_eq!(normalised(&spelling), full, "{text:?} spelt {spelling:?}");
        }
    }
    assert_eq!(
        kubelet_hash("main", text),
        container_hash::container_hash("main", text)
    );
}

fn names(text: &str) {
    let hash = revision::hash(&json!(text), 0);
    let name = revision::revision_name(text, &hash);
    assert_eq!(revision::short(&name), hash);
    assert!(revision::same(&name, &hash) && name.len() <= 253);
}

fn flags(text: &str) {
    let gates = gates::parse(text);
    assert!(gates.as_ref().is_ok() || gates.is_err_and(|why| !why.is_empty()));
    let words = || text.split_whitespace();
    if let Ok(cli) =
        controller::Cli::try_parse_from(std::iter::once("berth-controller").chain(words()))
    {
        let now = std::time::Instant::now();
        for time in [
            cli.run.lease_duration,
            cli.run.renew_deadline,
            cli.run.cert_validity,
            cli.run.ca_validity,
        ] {
            assert!(
                !time.is_zero() && now.checked_add(time).is_some(),
                "{time:?}"
            );
        }
    }
    if let Ok(flags) =
        daemon::Flags::try_parse_from(["berth-daemon", "--node-name=n"].into_iter().chain(words()))
    {
        let (settings, _, _) = (flags.settings(), flags.plugins(), flags.leases());
        assert!(settings.limits.parallel > 0);
    }
}
