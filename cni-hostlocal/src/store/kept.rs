//! The reservations: addresses that stay a pod's when its sandbox has gone.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    net::IpAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{Lease, Store, absent_is_fine, names, read_line, write_line};
use crate::{
    config::Sync,
    lease::Owner,
    node,
    range::parse_cidr,
    record::{Pod, Reservation},
};

const PODS: &str = "pods";
const RELEASED: &str = "released";
const DUE: &str = "due";
/// Reservations that end within so many seconds of each other are ended together.
const BUCKET: u64 = 10;

impl Store {
    fn pods(&self) -> PathBuf {
        self.state.join(PODS)
    }

    /// The reservation of a pod for an interface. One of the known patch is taken over.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn reservation(&mut self, pod: &Pod, interface: &str) -> io::Result<Option<Reservation>> {
        let found = read_line(&self.pods().join(pod.file_name(interface)))?.and_then(|line| Reservation::parse(&line));
        match found.filter(|found| found.pod == *pod) {
            None => self.migrate(pod, interface),
            found => Ok(found),
        }
    }

    /// Every reservation.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn all_reservations(&self) -> io::Result<Vec<Reservation>> {
        let directory = self.pods();
        let mut all = Vec::new();
        for name in names(&directory)? {
            all.extend(read_line(&directory.join(name))?.and_then(|line| Reservation::parse(&line)));
        }
        Ok(all)
    }

    /// Writes a reservation.
    ///
    /// # Errors
    /// A file cannot be written; then it is as before.
    pub fn set_reservation(&mut self, reservation: &Reservation) -> io::Result<()> {
        let directory = self.pods();
        write_line(&directory, &reservation.pod.file_name(&reservation.owner.interface), &reservation.line())?;
        if self.sync != Sync::Never {
            self.unsynced.insert(directory);
        }
        Ok(())
    }

    /// Begins the time that a reservation is kept without a sandbox.
    ///
    /// # Errors
    /// A file cannot be written; then it is still in use.
    pub fn release(&mut self, reservation: &mut Reservation) -> io::Result<()> {
        reservation.released = Some(self.now);
        if let Some(ends) = reservation.ends() {
            self.schedule(ends, &reservation.pod.file_name(&reservation.owner.interface))?;
        }
        self.set_reservation(reservation)
    }

    /// Ends a reservation and frees what it holds.
    ///
    /// # Errors
    /// A file cannot be removed; then it can be ended again.
    pub fn end(&mut self, reservation: &Reservation) -> io::Result<()> {
        for address in &reservation.addresses {
            if matches!(self.lease(*address)?, Lease::Of(owner) if reservation.holds(&owner)) {
                self.free(*address)?;
            }
        }
        self.drop_reservation(reservation)
    }

    /// Forgets a reservation, and leaves its leases alone.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn drop_reservation(&mut self, reservation: &Reservation) -> io::Result<()> {
        absent_is_fine(fs::remove_file(self.pods().join(reservation.pod.file_name(&reservation.owner.interface))))
    }

    /// Notes that a reservation ends at `ends`. `due` is written first: too early is harmless.
    fn schedule(&mut self, ends: u64, name: &str) -> io::Result<()> {
        let bucket = ends.div_ceil(BUCKET) * BUCKET;
        if self.due()?.is_none_or(|due| bucket < due) {
            write_line(&self.state, DUE, &bucket.to_string())?;
        }
        write_line(&self.state.join(RELEASED).join(format!("{bucket:012}")), name, "-")
    }

    fn due(&self) -> io::Result<Option<u64>> {
        Ok(read_line(&self.state.join(DUE))?.and_then(|due| due.parse().ok()))
    }

    /// Ends the reservations whose time is over, and looks at no others.
    pub(super) fn end_due(&mut self) -> io::Result<()> {
        if self.due()?.is_none_or(|due| due > self.now) {
            return Ok(());
        }
        let released = self.state.join(RELEASED);
        let mut buckets = names(&released)?;
        buckets.sort_unstable();
        let mut next = None;
        for bucket in buckets {
            let time = bucket.parse().unwrap_or(0);
            if time > self.now {
                next = Some(time);
                break;
            }
            let directory = released.join(bucket);
            for name in names(&directory)? {
                let reservation = read_line(&self.pods().join(&name))?.and_then(|line| Reservation::parse(&line));
                // It may have been taken up since, or released anew; then it is in another bucket.
                if let Some(over) = reservation.filter(|found| found.ends().is_some_and(|ends| ends <= self.now)) {
                    self.end(&over)?;
                }
                absent_is_fine(fs::remove_file(directory.join(name)))?;
            }
            absent_is_fine(fs::remove_dir(&directory))?;
        }
        match next {
            Some(next) => write_line(&self.state, DUE, &next.to_string()),
            None => absent_is_fine(fs::remove_file(self.state.join(DUE))),
        }
    }

    /// The reservation that was released first among those that hold an address of which `wanted` is true.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn oldest_released(&self, wanted: impl Fn(IpAddr) -> bool) -> io::Result<Option<Reservation>> {
        let mut all = self.all_reservations()?;
        all.retain(|found| found.released.is_some() && found.addresses.iter().any(|address| wanted(*address)));
        all.sort_by_key(|found| found.released);
        for found in all {
            for address in &found.addresses {
                if wanted(*address) && matches!(self.lease(*address)?, Lease::Of(owner) if found.holds(&owner)) {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// Takes over all reservations of the known patch that are of this network.
    pub(super) fn migrate_all(&mut self) -> io::Result<()> {
        for namespace in names(&self.patch)? {
            let directory = self.patch.join(&namespace);
            if !directory.is_dir() {
                continue;
            }
            for name in names(&directory)? {
                let pod = Pod { namespace: namespace.clone(), name };
                let Some(info) = PatchFile::read(&self.patch_path(&pod))? else { continue };
                if info.owner.interface.is_empty() || self.reservation(&pod, &info.owner.interface)?.is_none() {
                    continue;
                }
            }
        }
        Ok(())
    }

    fn patch_path(&self, pod: &Pod) -> PathBuf {
        // Names that Kubernetes allows have no slash, and nothing else is looked for.
        let plain = |name: &str| name.replace('/', "_");
        self.patch.join(plain(&pod.namespace)).join(plain(&pod.name))
    }

    /// Takes over the known patch's reservation of a pod, if its address is leased in this network as it says.
    fn migrate(&mut self, pod: &Pod, interface: &str) -> io::Result<Option<Reservation>> {
        let path = self.patch_path(pod);
        let Some(info) = PatchFile::read(&path)? else { return Ok(None) };
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
            minutes: info.minutes,
            released: None,
        };
        if info.is_free {
            self.release(&mut reservation)?;
        } else {
            self.set_reservation(&reservation)?;
        }
        if self.sync != Sync::Never {
            File::open(self.pods())?.sync_all()?;
        }
        fs::remove_file(path)?;
        Ok(Some(reservation))
    }
}

/// What a file of the known patch says.
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
    /// `None` when there is no file, or it says nothing that can be taken over.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let content = match fs::read(path) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory) =>
            {
                return Ok(None);
            }
            other => other?,
        };
        let Ok(document) = serde_json::from_slice::<PatchDocument>(&content) else { return Ok(None) };
        let Some((address, _)) = parse_cidr(&document.ip_conf.address) else { return Ok(None) };
        let written = fs::metadata(path)?.modified().ok();
        let written = written.and_then(|time| Some(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()));
        let earlier_boot = written.zip(node::booted()).is_some_and(|(written, booted)| written < booted);
        Ok(Some(Self {
            owner: Owner::new(&document.container_id, &document.if_name),
            address,
            minutes: document.duration,
            is_free: document.release_time.is_some() || earlier_boot,
        }))
    }
}
