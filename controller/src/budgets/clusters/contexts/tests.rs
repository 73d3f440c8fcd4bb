use super::*;

const KUBECONFIG: &str = r"
apiVersion: v1
kind: Config
clusters:
- {name: east, cluster: {server: 'https://127.0.0.1:1'}}
- {name: bare, cluster: {server: 'http://127.0.0.1:1'}}
- {name: skips, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}
- {name: file, cluster: {server: 'https://127.0.0.1:1', certificate-authority: /etc/passwd}}
users:
- {name: reader, user: {token: secret}}
- {name: runs, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}}}
- {name: reads, user: {tokenFile: /etc/passwd}}
contexts:
- {name: east, context: {cluster: east, user: reader}}
- {name: runs, context: {cluster: east, user: runs}}
- {name: reads, context: {cluster: east, user: reads}}
- {name: file, context: {cluster: file, user: reader}}
- {name: bare, context: {cluster: bare, user: reader}}
- {name: skips, context: {cluster: skips, user: reader}}
- {name: gone, context: {cluster: gone, user: reader}}
";

async fn read(text: &str) -> Contexts {
    let clusters = parsed(text, &Metrics::new(|_| {})).await;
    Contexts {
        text: text.to_owned(),
        clusters,
    }
}

fn why(contexts: &Contexts, cluster: &str) -> String {
    contexts.client(cluster).err().unwrap_or_default()
}

#[tokio::test]
async fn a_context_is_taken_only_if_nothing_is_run_or_read_for_it() {
    let contexts = read(KUBECONFIG).await;
    assert_eq!(why(&contexts, "east"), "");
    for (cluster, words) in [
        ("runs", "an exec plugin"),
        ("reads", "a tokenFile"),
        ("file", "another file"),
        ("bare", "by https"),
        ("skips", "by https"),
        ("gone", "is unfit"),
        (
            "west",
            "is in cluster \"west\", which is no context of the kubeconfig: the contexts are bare, east, file, gone, reads, runs, skips",
        ),
    ] {
        let why = why(&contexts, cluster);
        assert!(why.contains(words), "{cluster}: {why}");
    }
}

#[tokio::test]
async fn bad_kubeconfig_error_omits_its_text() {
    let contexts = read("token: [hunter2").await;
    let why = why(&contexts, "east");
    assert!(
        why.contains("kubectl config view --flatten") && !why.contains("hunter2"),
        "{why}"
    );
}
