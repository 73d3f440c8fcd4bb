use std::sync::Arc;
use std::time::Duration;

use berth_workload::objects::pod::Pod;
use http::header::ACCEPT;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::client::{Failed, fake};
use crate::store::Store;

/// So long a watch is to last.
const WATCH: Duration = Duration::from_secs(300);

/// A server at this version that records every request.
fn server(version: &'static str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let client = fake::apiserver(move |request: Request<Body>| {
        let accept = request.headers()[ACCEPT].to_str().unwrap().to_owned();
        let is_small = accept.contains("PartialObjectMetadataList");
        noted.lock().push(request.uri().to_string());
        let answer: Response<Body> = match is_small {
            true => fake::answer(
                StatusCode::OK,
                &json!({"metadata": {"resourceVersion": version}, "items": []}),
            ),
            false => fake::answer(StatusCode::BAD_REQUEST, &json!({})),
        };
        std::future::ready(answer)
    });
    (client, asked)
}

fn feed(client: Client) -> Feed<Pod> {
    let options = Options {
        namespace: "ns".to_owned(),
        labels: "app=web".to_owned(),
        ..Options::default()
    };
    Feed::new(client, Store::new(&[]), options)
}

#[tokio::test]
async fn cut_watch_resumes_unless_server_is_behind() {
    let table = [
        ("50", false),
        ("51", false),
        ("49", true),
        ("9", true),
        ("not a number", false),
    ];
    for (version, again) in table {
        let (client, asked) = server(version);
        let mut feed = feed(client);
        feed.doubt = true;
        let looked = feed.look_back(Some("50")).await;
        assert_eq!(
            matches!(looked, Err(End::Expired)),
            again,
            "{version}: {looked:?}"
        );
        assert_eq!((feed.force, feed.doubt), (again, false), "{version}");
        // Any object: with our labels the server would read all of them to find one.
        assert_eq!(*asked.lock(), ["/api/v1/namespaces/ns/pods?limit=1"]);
    }
}

#[tokio::test]
async fn server_is_checked_only_for_a_doubtful_resume() {
    for (doubt, position) in [(false, Some("50")), (true, None), (false, None)] {
        let (client, asked) = server("1");
        let mut feed = feed(client);
        feed.doubt = doubt;
        assert!(feed.look_back(position).await.is_ok());
        assert!(
            asked.lock().is_empty() && !feed.doubt,
            "{doubt} {position:?}"
        );
    }
}

#[tokio::test]
async fn failed_check_of_the_server_leaves_doubt() {
    let client = fake::apiserver(|_| {
        std::future::ready(fake::answer(StatusCode::SERVICE_UNAVAILABLE, &json!({})))
    });
    let mut feed = feed(client);
    feed.doubt = true;
    assert!(matches!(
        feed.look_back(Some("50")).await,
        Err(End::Failed(_))
    ));
    assert!(feed.doubt && !feed.force);
}

#[tokio::test(start_paused = true)]
async fn watch_of_full_length_leaves_no_doubt() {
    let mut feed = feed(server("1").0);
    assert!(feed.is_cut_short(&End::Closed), "it never began");
    feed.watch_ends = Some(Instant::now() + WATCH);
    assert!(feed.is_cut_short(&End::Closed));
    tokio::time::advance(WATCH).await;
    assert!(!feed.is_cut_short(&End::Closed));
    assert!(feed.is_cut_short(&End::Failed(Failed::default())));
}
