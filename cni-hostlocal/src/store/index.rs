//! The attachments with their addresses, so that no call searches all leases for them.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::IpAddr,
    path::PathBuf,
};

use super::{
    Lease, Sandbox, Store, address_of,
    files::{at, names, read_line, remove_file, write_line},
    mark,
};
use crate::{
    lease::Owner,
    record::{Attachment, Reservation},
};

/// The directory of the attachments, in a network's directory of state.
pub const ATTACHMENTS: &str = "attachments";
const BOOT: &str = "boot";
/// The content of the boot's file if the kernel reports no boot's id.
const NO_BOOT: &str = "unknown";

impl Store {
    fn attachments(&self) -> PathBuf {
        self.state.join(ATTACHMENTS)
    }

    /// The record of an attachment in the index.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn attachment(&self, owner: &Owner) -> io::Result<Option<Attachment>> {
        Ok(read_line(&self.attachments().join(owner.file_name()))?
            .map(|line| Attachment::parse(&line)))
    }

    /// Writes the record of an attachment.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn set_attachment(&mut self, owner: &Owner, attachment: &Attachment) -> io::Result<()> {
        self.set_entry(&owner.file_name(), attachment)
    }

    /// Writes the record of an attachment, by the name of its file.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn set_entry(&mut self, entry: &str, attachment: &Attachment) -> io::Result<()> {
        write_line(&self.attachments(), entry, &attachment.line())
    }

    /// Forgets an attachment.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn forget(&mut self, owner: &Owner) -> io::Result<()> {
        self.forget_entry(&owner.file_name())
    }

    /// Forgets an attachment by the name of its file.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn forget_entry(&mut self, entry: &str) -> io::Result<()> {
        remove_file(&self.attachments().join(entry))
    }

    /// All attachments by the names of their files.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn all_attachments(&self) -> io::Result<BTreeMap<String, Attachment>> {
        let directory = self.attachments();
        let mut all = BTreeMap::new();
        for name in names(&directory)? {
            if let Some(line) = read_line(&directory.join(&name))? {
                all.insert(name, Attachment::parse(&line));
            }
        }
        Ok(all)
    }

    /// Brings all files up to date: ends the leases of another boot, shortens reservations to the
    /// configured maximum, ends reservations that are due, and makes the index exact if it is not.
    /// Every call begins with this; usually there is nothing to do, and then it reads no lease.
    ///
    /// # Errors
    /// A file cannot be read or written. Then no address may be given, because leases of this boot
    /// could be taken for those of another.
    pub fn settle(&mut self) -> io::Result<()> {
        let recorded = read_line(&self.state.join(BOOT))?;
        let boot = self.boot.clone().unwrap_or_else(|| NO_BOOT.into());
        let same_boot = recorded.as_ref() == Some(&boot);
        let exact = same_boot && mark::is_set(&self.leases).map_err(at(&self.leases))?;
        if !same_boot {
            if recorded.is_none() {
                self.migrate_all()?;
            } else if self.boot.is_some() {
                self.end_boot()?;
            }
        }
        self.settle_max_minutes()?;
        self.end_due()?;
        if !exact {
            self.read_all_leases()?;
        }
        if !same_boot {
            write_line(&self.state, BOOT, &boot)?;
        }
        self.exact = true;
        Ok(())
    }

    /// Whether the index is of another boot, if the kernel reports a boot's id.
    pub(super) fn is_of_another_boot(&self) -> io::Result<bool> {
        let recorded = read_line(&self.state.join(BOOT))?;
        Ok(self.boot.is_some() && recorded.is_some() && recorded != self.boot)
    }

    /// Ends the attachments of another boot, because none of their sandboxes is left. Addresses
    /// kept for pods count as released now.
    fn end_boot(&mut self) -> io::Result<()> {
        for mut reservation in self.all_reservations()? {
            if reservation.released.is_none() {
                reservation.netns.clear();
                self.release(&mut reservation)?;
            }
        }
        let kept = self.kept_addresses()?;
        for (entry, attachment) in self.all_attachments()? {
            for address in attachment.addresses {
                if kept.contains_key(&address) {
                    continue;
                }
                match self.lease(address)? {
                    Lease::Of(owner) if owner.file_name() == entry => self.free(address)?,
                    // The disk lost the last writes, as disks do when the power fails.
                    Lease::Broken => self.free(address)?,
                    Lease::Of(_) | Lease::Free | Lease::Foreign => {}
                }
            }
            self.forget_entry(&entry)?;
        }
        Ok(())
    }

    /// The addresses of reservations that are released and still hold their leases.
    pub(super) fn kept_addresses(&self) -> io::Result<HashMap<IpAddr, Reservation>> {
        let mut kept = HashMap::new();
        for reservation in self.all_reservations()? {
            if reservation.released.is_none() {
                continue;
            }
            for address in &reservation.addresses {
                if matches!(self.lease(*address)?, Lease::Of(owner) if reservation.holds(&owner)) {
                    kept.insert(*address, reservation.clone());
                }
            }
        }
        Ok(kept)
    }

    /// Makes the index anew from the leases.
    fn read_all_leases(&mut self) -> io::Result<()> {
        self.changed = true;
        let mut found: BTreeMap<String, (Owner, Attachment)> = BTreeMap::new();
        for (address, Sandbox { owner, netns, .. }) in self.lost()? {
            // The index keeps an address whose lease file cannot be made, until it can.
            if !self.restore(address, &owner)? {
                let blank = Attachment {
                    netns,
                    ..Attachment::default()
                };
                found
                    .entry(owner.file_name())
                    .or_insert((owner, blank))
                    .1
                    .addresses
                    .push(address);
            }
        }
        self.attachments_of_leases(&mut found)?;
        self.replace_attachments(found)
    }

    /// Adds the attachment of each lease, except of released reservations.
    fn attachments_of_leases(
        &mut self,
        found: &mut BTreeMap<String, (Owner, Attachment)>,
    ) -> io::Result<()> {
        let mut reserved: HashMap<IpAddr, Reservation> = HashMap::new();
        for reservation in self.all_reservations()? {
            for address in &reservation.addresses {
                reserved.insert(*address, reservation.clone());
            }
        }
        for address in names(&self.leases)?
            .iter()
            .filter_map(|name| address_of(name))
        {
            let Lease::Of(mut owner) = self.lease(address)? else {
                continue;
            };
            let reservation = reserved
                .get(&address)
                .filter(|reservation| reservation.holds(&owner))
                .cloned();
            let mut blank = Attachment::default();
            if let Some(reservation) = reservation {
                if reservation.released.is_some() {
                    continue;
                }
                if !reservation.owner.is(&owner) {
                    // A call was killed after it had written the reservation's new owner and before
                    // it wrote the lease.
                    self.assign(address, &reservation.owner, true)?;
                    owner = reservation.owner;
                }
                blank.netns = reservation.netns;
                blank.pod = Some(reservation.pod);
                blank.minutes = reservation.minutes;
            }
            let entry = found.entry(owner.file_name()).or_insert((owner, blank));
            entry.1.addresses.push(address);
        }
        Ok(())
    }

    /// Writes the attachments that differ from the index, and removes the index's others.
    fn replace_attachments(
        &mut self,
        found: BTreeMap<String, (Owner, Attachment)>,
    ) -> io::Result<()> {
        let mut known = self.all_attachments()?;
        for (entry, (owner, mut attachment)) in found {
            attachment.addresses.sort_unstable();
            match known.remove(&entry) {
                Some(before) if before.addresses == attachment.addresses => {}
                Some(before) => {
                    self.set_attachment(
                        &owner,
                        &Attachment {
                            addresses: attachment.addresses,
                            ..before
                        },
                    )?;
                }
                None => self.set_attachment(&owner, &attachment)?,
            }
        }
        for entry in known.keys() {
            self.forget_entry(entry)?;
        }
        Ok(())
    }
}
