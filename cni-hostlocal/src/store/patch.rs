//! Reservations of the known patch to the original plugin, and their migration.

use super::{
    Lease, Store,
    files::{Entry, at, names, read_entry, remove_file, sync},
};
use crate::{
    config::document::Sync,
    lease::Owner,
    node,
    range::parse_cidr,
    record::{Pod, Reservation},
};
use serde::Deserialize;
use std::{
    fs,
    io::{self, ErrorKind},
    net::IpAddr,
    path::{Path, PathBuf},
};

impl Store {
    /// Takes over all reservations of the known patch that are of this network.
    pub(super) fn migrate_all(&mut self) -> io::Result<()> {
        for namespace in names(&self.patch)? {
            let directory = self.patch.join(&namespace);
            if !directory.is_dir() {
                continue;
            }
            for name in names(&directory)? {
                let pod = Pod {
                    namespace: namespace.clone(),
                    name,
                };
                let Some(info) = PatchFile::read(&self.patch_path(&pod))? else {
                    continue;
                };
                if info.owner.interface.is_empty()
                    || self.reservation(&pod, &info.owner.interface)?.is_none()
                {
                    continue;
                }
            }
        }
        Ok(())
    }

    fn patch_path(&self, pod: &Pod) -> PathBuf {
        // Names that Kubernetes allows have no slash, so no other spelling is tried.
        let plain = |name: &str| name.replace('/', "_");
        self.patch
            .join(plain(&pod.namespace))
            .join(plain(&pod.name))
    }

    /// Takes over the known patch's reservation of a pod, if its address is leased in this network
    /// as it says.
    pub(super) fn migrate(
        &mut self,
        pod: &Pod,
        interface: &str,
    ) -> io::Result<Option<Reservation>> {
        let path = self.patch_path(pod);
        let Some(info) = PatchFile::read(&path)? else {
            return Ok(None);
        };
        if info.owner.interface != interface
            || !matches!(self.lease(info.address)?, Lease::Of(owner) if info.owner.is(&owner))
        {
            return Ok(None);
        }
        let mut reservation = Reservation {
            pod: pod.clone(),
            addresses: vec![info.address],
            owner: info.owner,
            before: None,
            netns: String::new(),
            minutes: self.at_most(info.minutes),
            released: None,
        };
        if info.is_free {
            self.release(&mut reservation)?;
        } else {
            self.set_reservation(&reservation)?;
        }
        if self.sync != Sync::Never {
            sync(&self.pods())?;
        }
        remove_file(&path)?;
        Ok(Some(reservation))
    }
}

/// The content of a file of the known patch.
struct PatchFile {
    owner: Owner,
    address: IpAddr,
    minutes: u32,
    /// No sandbox has it: it was released, or the file is older than this boot.
    is_free: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PatchDocument {
    container_id: String,
    if_name: String,
    #[serde(rename = "IPConf")]
    ip_conf: PatchAddress,
    duration: u32,
    #[serde(default)]
    release_time: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct PatchAddress {
    address: String,
}

impl PatchFile {
    /// `None` without a file, or if its content cannot be taken over.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let content = match read_entry(path) {
            Ok(Entry::File(content)) => content,
            Ok(Entry::Absent | Entry::Other) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(None),
            Err(error) => return Err(error),
        };
        let Ok(document) = serde_json::from_slice::<PatchDocument>(&content) else {
            return Ok(None);
        };
        let Some((address, _)) = parse_cidr(&document.ip_conf.address) else {
            return Ok(None);
        };
        let written = fs::metadata(path).map_err(at(path))?.modified().ok();
        let written = written
            .and_then(|time| Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()));
        let earlier_boot = written
            .zip(node::booted())
            .is_some_and(|(written, booted)| written < booted);
        Ok(Some(Self {
            owner: Owner::new(&document.container_id, &document.if_name),
            address,
            minutes: document.duration,
            is_free: document.release_time.is_some() || earlier_boot,
        }))
    }
}
