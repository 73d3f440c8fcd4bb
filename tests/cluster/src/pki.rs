//! The certificates of a cluster: one authority, a serving certificate and an identity for each
//! component.

use crate::address;
use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;
use std::{
    fs::{self, File},
    io::Write,
    net::Ipv4Addr,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// A cluster's authority, which writes certificates, keys and kubeconfigs into one directory.
pub(crate) struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new authority, and the key pair that signs service account tokens, in this
    /// directory.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "berth-cluster");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = params.self_signed(&key)?;
        fs::write(directory.join("ca.crt"), certificate.pem())?;
        write_secret(&directory.join("ca.key"), &key.serialize_pem())?;
        let tokens = KeyPair::generate()?;
        write_secret(
            &directory.join("service-account.key"),
            &tokens.serialize_pem(),
        )?;
        fs::write(
            directory.join("service-account.pub"),
            tokens.public_key_pem(),
        )?;
        Ok(Self {
            directory: directory.to_owned(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Writes `NAME.crt` and `NAME.key` for this user and groups, valid for a server with these
    /// names and addresses.
    pub(crate) fn issue(
        &self,
        name: &str,
        user: &str,
        group: Option<&str>,
        valid_for: &[&str],
    ) -> Result<()> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = valid_for.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)
            .with_context(|| format!("names of the certificate {name}"))?;
        params.distinguished_name.push(DnType::CommonName, user);
        if let Some(group) = group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = params.signed_by(&key, &self.issuer)?;
        fs::write(
            self.directory.join(format!("{name}.crt")),
            certificate.pem(),
        )?;
        write_secret(
            &self.directory.join(format!("{name}.key")),
            &key.serialize_pem(),
        )
    }

    /// Issues the certificates that the control plane needs.
    pub(crate) fn issue_control_plane(&self) -> Result<()> {
        let addresses = [
            Ipv4Addr::LOCALHOST,
            address::CONTROL_PLANE,
            address::KUBERNETES_SERVICE,
        ]
        .map(|a| a.to_string());
        let mut names = vec![
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ];
        names.extend(addresses.iter().map(String::as_str));
        self.issue("apiserver", "kube-apiserver", None, &names)?;
        self.issue(
            "apiserver-kubelet-client",
            "kube-apiserver-kubelet-client",
            Some("system:masters"),
            &[],
        )?;
        self.issue("front-proxy-client", "front-proxy-client", None, &[])?;
        self.issue("admin", "admin", Some("system:masters"), &[])?;
        self.issue(
            "controller-manager",
            "system:kube-controller-manager",
            None,
            &[],
        )?;
        self.issue("scheduler", "system:kube-scheduler", None, &[])?;
        self.issue("kube-proxy", "system:kube-proxy", None, &[])?;
        self.issue("dns", "system:coredns", None, &[])?;
        self.issue("metrics-server", "system:metrics-server", None, &[])
    }

    /// Issues a node's identity, which is its kubelet's serving certificate too.
    pub(crate) fn issue_node(&self, name: &str, number: u8) -> Result<()> {
        let ip = address::node(number).to_string();
        self.issue(
            name,
            &format!("system:node:{name}"),
            Some("system:nodes"),
            &[name, &ip],
        )
    }

    /// Writes a kubeconfig for the identity `user` that reaches the apiserver at `server`.
    pub(crate) fn kubeconfig(&self, user: &str, server: &str, file: &Path) -> Result<()> {
        let path = |name: String| self.directory.join(name);
        // JSON is YAML, and with paths the certificates need not be encoded once more.
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "berth",
            "contexts": [{"name": "berth", "context": {"cluster": "berth", "user": user}}],
            "clusters": [{"name": "berth", "cluster": {"server": server, "certificate-authority": path("ca.crt".into())}}],
            "users": [{"name": user, "user": {
                "client-certificate": path(format!("{user}.crt")),
                "client-key": path(format!("{user}.key")),
            }}],
        });
        write_secret(file, &format!("{config:#}\n"))
    }
}

fn write_secret(path: &Path, content: &str) -> Result<()> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(content.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
