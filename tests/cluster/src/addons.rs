//! The objects of a new cluster beside its components: the default StorageClass, and the Services,
//! the endpoints and the rights of cluster DNS and of metrics-server.

use crate::address;
use serde_json::{Value, json};

/// Where CoreDNS reports over HTTP, in the control plane's network, whether it is ready.
pub(crate) const DNS_READINESS: &str = "127.0.0.1:8181";

/// The path of [`storage_class`] in the API.
pub(crate) const STORAGE_CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

/// The default StorageClass.
pub(crate) fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "standard",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "kubernetes.io/host-path",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    })
}

/// The Service, the endpoint and the rights of cluster DNS.
pub(crate) fn dns() -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
            "spec": {
                "clusterIP": address::DNS_SERVICE,
                "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "kube-dns",
                "namespace": "kube-system",
                "labels": {"kubernetes.io/service-name": "kube-dns"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}],
            "endpoints": [{"addresses": [address::CONTROL_PLANE], "conditions": {"ready": true}}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:coredns"}],
        },
    ]})
}

/// The Service, the endpoint, the API and the rights of metrics-server.
pub(crate) fn metrics() -> Value {
    let user = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:metrics-server"}]);
    let binding = |name: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": user,
        })
    };
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics-server", "namespace": "kube-system"},
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": address::METRICS_PORT}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "metrics-server",
                "namespace": "kube-system",
                "labels": {"kubernetes.io/service-name": "metrics-server"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": address::METRICS_PORT}],
            "endpoints": [{"addresses": [address::CONTROL_PLANE], "conditions": {"ready": true}}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"name": "metrics-server", "namespace": "kube-system"},
            },
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:metrics-server"},
            "rules": [
                {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
            ],
        },
        binding("system:metrics-server", "system:metrics-server"),
        binding("metrics-server:system:auth-delegator", "system:auth-delegator"),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "metrics-server-auth-reader", "namespace": "kube-system"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "extension-apiserver-authentication-reader",
            },
            "subjects": user,
        },
    ]})
}

/// The configuration of CoreDNS: it answers for the cluster, and for every other name with
/// NXDOMAIN.
pub(crate) fn corefile(kubeconfig: &str) -> String {
    let zones = format!("{} in-addr.arpa ip6.arpa", address::CLUSTER_DOMAIN);
    format!(
        "{zones} {{
    errors
    health 127.0.0.1:8080
    ready {DNS_READINESS}
    kubernetes {zones} {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
    cache 5
    reload
}}
. {{
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"
    )
}

/// The audit policy: user, verb and object of each request, once per request.
pub(crate) fn audit_policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [{"level": "Metadata"}],
    })
}
