use super::*;

#[test]
fn modules_pin_the_version_of_their_name() {
    for version in Kubernetes::value_variants() {
        let module = version.module();
        let pinned = module.version("k8s.io/kubernetes").unwrap();
        assert!(
            pinned.starts_with(&format!("v{version}.")),
            "{version}: {pinned}"
        );
        let staging = format!("k8s.io/api => k8s.io/api v0{}\n", &pinned[2..]);
        assert!(module.go_mod.contains(&staging), "{version}: {staging}");
        assert!(module.version("helm.sh/helm/v3").is_some(), "{version}");
    }
    let containerd = Containerd::V2_4
        .module()
        .unwrap()
        .version("github.com/containerd/containerd/v2")
        .unwrap();
    assert!(containerd.starts_with("v2.4."), "{containerd}");
    assert!(Containerd::V1_6.module().is_none());
    assert_eq!(
        metrics_server().version("sigs.k8s.io/metrics-server"),
        Some("v0.8.0")
    );
}
