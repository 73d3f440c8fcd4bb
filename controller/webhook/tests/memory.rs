//! The memory for the largest bodies. One test, because the peak is that of the whole process.

use berth_webhook::reviews;

/// The most memory that this process has held so far, in bytes. `None` where the kernel does not
/// say.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? << 10)
}

fn review(objects: &str) -> String {
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"u","desiredAPIVersion":"apps.kruise.io/v1alpha1","objects":[{objects}]}}}}"#
    )
}

fn object(kind: &str, template: &str) -> String {
    format!(
        r#"{{"apiVersion":"apps.kruise.io/v1beta1","kind":"{kind}","metadata":{{"name":"a"}},"spec":{{"template":{template}}}}}"#
    )
}

/// As trees of JSON, each of these took a hundred times its size.
#[test]
fn review_memory_is_a_small_multiple_of_its_size() {
    let maps = vec![r#"{"":0}"#; 3_000_000].join(",");
    let deep = r#"{"a":"#.repeat(2_000_000) + "1" + &"}".repeat(2_000_000);
    let many = vec![object("CloneSet", r#"{"":0}"#); 100_000].join(",");
    let secrets = vec!["0"; 4_000_000].join(",");
    let images = vec![r#""a":{"pullSecrets":[{"mode":0}]}"#; 250_000].join(",");
    let annotations = vec![r#""":"""#; 1_400_000].join(",");
    let node_image = |images: &str, annotations: &str| {
        format!(
            r#"{{"apiVersion":"apps.kruise.io/v1beta1","kind":"NodeImage","metadata":{{"annotations":{{{annotations}}}}},"spec":{{"images":{{{images}}}}}}}"#
        )
    };
    let table = [
        (
            "a list of secrets",
            review(&node_image(
                &format!(r#""a":{{"pullSecrets":[{secrets}]}}"#),
                "",
            )),
            "Success",
        ),
        (
            "images with secrets",
            review(&node_image(&images, "")),
            "Success",
        ),
        (
            "annotations",
            review(&node_image("", &annotations)),
            "Success",
        ),
        ("objects that are none", review(&maps), "Failure"),
        (
            "a template of maps",
            review(&object("CloneSet", &format!("[{maps}]"))),
            "Success",
        ),
        (
            "a deep template",
            review(&object("CloneSet", &deep)),
            "Success",
        ),
        ("many objects", review(&many), "Success"),
    ];
    for (what, body, says) in table {
        let before = peak().unwrap();
        let answer = reviews::conversion(body.as_bytes()).unwrap();
        let result = String::from_utf8_lossy(&answer[..200.min(answer.len())]).contains(says);
        let taken = peak().unwrap() - before;
        assert!(result, "{what}");
        assert!(
            taken < 5 * body.len(),
            "{what}: {taken} bytes for a review of {}",
            body.len()
        );
    }
}
