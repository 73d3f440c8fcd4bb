//! Input of a node's daemon: the runtime's answers about containers and images, and the requests in
//! the NodeImage.

use std::collections::HashMap;
use std::time::Duration;

use berth_api::v1beta1::nodeimage::{InspectPod, NodeImageSpec, NodeImageStatus};
use berth_daemon::containers::{env, pre_stop};
use berth_daemon::runtime::inspect::{Facts, POD_UID_LABEL, inspect, timed};
use berth_daemon::tasks::manifest::{Blob, Bytes, Document, parse};
use berth_daemon::tasks::{Limits, Now, Outcome, Resolved, Tasks};
use berth_daemon::urgency;
use jiff::{SignedDuration, Timestamp};
use k8s_cri::v1::{Container, ContainerMetadata, Image, ImageSpec};
use serde::Deserialize;
use tokio::time::Instant;

use crate::objects::{document, stays};

/// The requests, and the runtime's answers.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Said {
    pods: Vec<InspectPod>,
    containers: Vec<SaidContainer>,
    images: Vec<SaidImage>,
    names: Vec<String>,
    /// Keyed by container: the runtime's verbose status.
    infos: HashMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SaidContainer {
    id: String,
    uid: String,
    name: String,
    attempt: u32,
    state: i32,
    image: String,
    image_ref: String,
    created_at: i64,
    annotations: HashMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct SaidImage {
    id: String,
    tags: Vec<String>,
    digests: Vec<String>,
}

impl From<SaidContainer> for Container {
    fn from(said: SaidContainer) -> Self {
        Container {
            id: said.id,
            metadata: Some(ContainerMetadata {
                name: said.name,
                attempt: said.attempt,
            }),
            image: Some(ImageSpec {
                user_specified_image: said.image,
                ..ImageSpec::default()
            }),
            image_ref: said.image_ref,
            state: said.state,
            created_at: said.created_at,
            labels: [(POD_UID_LABEL.to_owned(), said.uid)].into(),
            annotations: said.annotations,
            ..Container::default()
        }
    }
}

pub(crate) fn container(data: &[u8]) {
    stored(data);
    let Some(Ok(said)) = document(data).map(Said::deserialize) else {
        return;
    };
    let containers: Vec<Container> = said.containers.into_iter().map(Container::from).collect();
    let image = |said: SaidImage| Image {
        id: said.id,
        repo_tags: said.tags,
        repo_digests: said.digests,
        ..Image::default()
    };
    let images: Vec<Image> = said.images.into_iter().map(image).collect();
    let facts = Facts {
        runtime: "containerd",
        containers: &containers,
        images: &images,
        names: &said.names,
    };
    let mut answers = timed(inspect(&said.pods, facts), &[], Timestamp::UNIX_EPOCH);
    assert!(answers.len() <= said.pods.len());
    let asked: Vec<String> = env::requested_ids(&said.pods, &answers)
        .map(str::to_owned)
        .collect();
    let known = asked
        .iter()
        .filter_map(|id| Some((id.clone(), env::environment(said.infos.get(id)?)?)))
        .collect();
    env::answer(&said.pods, &mut answers, &known, |_| false);
    for stop in env::to_stop(&said.pods, &answers, &containers) {
        let rest = pre_stop::left(stop.grace, stop.grace / 2);
        assert!(!rest.is_zero() && rest <= stop.grace, "{stop:?}");
    }
    assert_eq!(
        timed(answers.clone(), &answers, Timestamp::MAX),
        answers,
        "an answer that stays keeps its time"
    );
    for answer in &answers {
        let written = serde_json::to_value(answer).unwrap_or_default();
        assert!(
            stays::<berth_api::v1beta1::nodeimage::InspectedPod>(&written),
            "{answer:?}"
        );
    }
}

/// A document of the content store.
fn stored(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        env::environment(text);
    }
    let blobs = match parse(data) {
        None => return,
        Some(Document::Manifest { config, layers }) => [layers, vec![config]].concat(),
        Some(Document::Index { manifests }) => manifests,
    };
    let bytes = Bytes::of(&blobs, |blob: &Blob| blob.size / 2);
    assert!(
        bytes.done <= bytes.total && (0..=100).contains(&bytes.percent()),
        "{bytes:?}"
    );
    assert_eq!(bytes.missing(), bytes.total - bytes.done);
}

/// The content of a NodeImage, and events: the last digits of each number select the event.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Story {
    now: i64,
    parallel: u8,
    specs: Vec<NodeImageSpec>,
    status: NodeImageStatus,
    events: Vec<u16>,
}

pub(crate) fn pulls(data: &[u8]) {
    let Some(Ok(story)) = document(data).map(Story::deserialize) else {
        return;
    };
    let limits = Limits {
        parallel: story.parallel.into(),
    };
    let (mut tasks, mut written) = (Tasks::default(), story.status.clone());
    let time = Timestamp::from_second(story.now).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut now = Now {
        steady: Instant::now(),
        time,
    };
    let nothing = NodeImageSpec::default();
    for (turn, event) in story.events.iter().take(64).enumerate() {
        let spec = story
            .specs
            .get(turn % story.specs.len().max(1))
            .unwrap_or(&nothing);
        let plan = tasks.step(spec, &written, event % 5 != 0, limits, now);
        assert!(
            plan.wake_at.is_none_or(|at| at > now.steady),
            "{:?} is not after {now:?}",
            plan.wake_at
        );
        assert!(tasks.under_way() <= limits.parallel.max(1));
        let image = || Resolved {
            id: "sha256:0".to_owned(),
            ids: vec!["sha256:0".to_owned()],
            bytes: Some(u64::MAX),
        };
        for key in &plan.look {
            match event % 3 {
                0 => tasks.looked(key, Some(image()), now),
                1 => tasks.looked(key, None, now),
                _ => tasks.not_looked(key, now),
            }
        }
        for start in &plan.start {
            tasks.progressed(
                start.attempt,
                Bytes {
                    done: u64::from(*event),
                    total: u64::MAX,
                },
                now,
            );
            match event % 7 {
                0 => tasks.ended(start.attempt, Outcome::Pulled(image()), now),
                1 => tasks.ended(
                    start.attempt,
                    Outcome::PulledAlthough(image(), "ä".repeat(700)),
                    now,
                ),
                2 => tasks.ended(start.attempt, Outcome::Failed("ä".repeat(700)), now),
                3 => tasks.ended(start.attempt, Outcome::Held("away".to_owned()), now),
                _ => {}
            }
        }
        if event % 11 == 0 {
            tasks.images_changed(now);
        }
        let status = tasks.status();
        let told: usize = status
            .image_statuses
            .values()
            .map(|image| image.tags.len())
            .sum();
        assert_eq!(usize::try_from(status.desired), Ok(told));
        assert_eq!(
            status.desired,
            status.waiting + status.pulling + status.succeeded + status.failed
        );
        assert!(stays::<NodeImageStatus>(
            &serde_json::to_value(&status).unwrap_or_default()
        ));
        urgency::urgency(&written, &status);
        written = status;
        now.steady += Duration::from_secs((*event).into());
        // The time of day may be set, too.
        let day = if event % 13 == 0 { -86_400 } else { 0 };
        now.time = now
            .time
            .checked_add(SignedDuration::from_secs(i64::from(*event) + day))
            .unwrap_or(now.time);
    }
}
