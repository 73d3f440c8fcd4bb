//! Reviews of new pods above the size that is read at once.

use super::*;
use crate::pods::{INJECT_PATH, Injected, Injector, Labels, Lacks};
use crate::secret_path::handler_path;
use parking_lot::Mutex;

/// Notes the namespaces of the pods of its calls, and takes its time.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl Injector for Notes {
    fn faults(&self, _: &str, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }

    fn inject(&self, namespace: &str, _: Option<&Labels>, _: &Value) -> Result<Injected, Lacks> {
        std::thread::sleep(Duration::from_millis(30));
        self.0.lock().push(namespace.to_owned());
        Ok(Injected::default())
    }
}

/// A server with this injector, and the path of its reviews.
async fn injecting(notes: &Arc<Notes>) -> (Served, String) {
    let client =
        Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
    let judge = Judge {
        injector: Some(notes.clone()),
        ..Judge::asking(client)
    };
    judge.secret_path.learn("key", 1);
    let path = handler_path(INJECT_PATH, &judge.secret_path.newest().unwrap());
    (Served::start_with(judge).await, path)
}

/// As the apiserver writes it: the uid and the namespace come before the object.
fn review(namespace: &str, value: &str) -> String {
    let env = json!([{"name": "A", "value": ""}])
        .to_string()
        .replace(r#""value":"""#, &format!(r#""value":"{value}""#));
    let object = format!(
        r#"{{"metadata":{{"name":"a"}},"spec":{{"containers":[{{"name":"main","env":{env}}}]}}}}"#
    );
    format!(
        r#"{{"request":{{"uid":"u-{namespace}","namespace":"{namespace}","object":{object}}}}}"#
    )
}

/// The AdmissionReview in an answer.
async fn answered(served: &Served, path: &str, body: &str) -> Value {
    let mut stream = served.connect().await;
    let mut answer = ask(&mut stream, "POST", path, body.len(), body).await;
    loop {
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        if let Ok(review) = serde_json::from_str(body) {
            return review;
        }
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "{answer}");
        answer += &String::from_utf8_lossy(&buffer[..read]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn review_of_a_pod_too_large_to_be_read_is_refused() {
    let notes = Arc::new(Notes::default());
    let (served, path) = injecting(&notes).await;
    // 1.45 MB of such characters, as the apiserver writes them.
    let answer = answered(&served, &path, &review("t1", &r"\u003c".repeat(1_450_000))).await;
    let response = &answer["response"];
    assert_eq!(
        (&response["uid"], &response["allowed"]),
        (&json!("u-t1"), &json!(false))
    );
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("its review has more than 8388608 bytes"),
        "{message}"
    );
    assert_eq!(
        served.kinds.new_pods.bodies.left(),
        16 << 20,
        "it needs no memory"
    );
    assert_eq!(
        answered(&served, &path, &review("t1", "x")).await["response"]["allowed"],
        true
    );
    assert_eq!(notes.all(), ["t1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_reviews_of_a_neighbour_come_between() {
    let notes = Arc::new(Notes::default());
    let (served, path) = injecting(&notes).await;
    let (served, path) = (Arc::new(served), Arc::<str>::from(path));
    let asks = |namespace: &'static str, size: usize| {
        let (served, path) = (served.clone(), path.clone());
        tokio::spawn(async move {
            answered(&served, &path, &review(namespace, &"x".repeat(size))).await
        })
    };
    let flood: Vec<_> = (0..24).map(|_| asks("t1", 1_300_000)).collect();
    while notes.all().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let neighbour = asks("t2", 70_000).await.unwrap();
    assert_eq!(neighbour["response"]["allowed"], true);
    let before = notes
        .all()
        .iter()
        .take_while(|namespace| *namespace != "t2")
        .count();
    assert!(
        before < 12,
        "{before} of 24 reviews of another namespace were before"
    );
    flood.iter().for_each(tokio::task::JoinHandle::abort);
}
