//! Living sandboxes, by their network namespaces. Leases that they lost are made again. Leases of
//! other sandboxes are leaked.

use std::{collections::BTreeMap, io, net::IpAddr};

use super::{Lease, Store};
use crate::lease::Owner;

/// A sandbox's interface, as the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The attachment.
    pub owner: Owner,
    /// The path of its network namespace.
    pub netns: String,
    /// How many minutes after its end its addresses are kept.
    pub minutes: u32,
}

impl Store {
    /// Judges namespaces by `lives`, because this process does not see the paths of the node.
    #[must_use]
    pub fn with_namespaces(self, lives: impl Fn(&str) -> bool + 'static) -> Self {
        Self {
            lives: Box::new(lives),
            ..self
        }
    }

    /// Whether a path is known and that of a network namespace.
    pub fn lives(&self, netns: &str) -> bool {
        !netns.is_empty() && (self.lives)(netns)
    }

    /// The addresses of living sandboxes that no lease holds: the file is absent or names no
    /// container.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn lost(&self) -> io::Result<BTreeMap<IpAddr, Sandbox>> {
        let mut lost = BTreeMap::new();
        if self.is_of_another_boot()? {
            return Ok(lost);
        }
        for (addresses, sandbox) in self.sandboxes()? {
            let mut without = Vec::new();
            for address in addresses {
                if !matches!(self.lease(address)?, Lease::Of(_)) {
                    without.push(address);
                }
            }
            let is_readable =
                Owner::parse(sandbox.owner.content().as_bytes()).as_ref() == Some(&sandbox.owner);
            if without.is_empty() || !is_readable || !self.lives(&sandbox.netns) {
                continue;
            }
            for address in without {
                lost.entry(address).or_insert_with(|| sandbox.clone());
            }
        }
        Ok(lost)
    }

    /// The addresses of each sandbox that an attachment or a reservation in use names.
    fn sandboxes(&self) -> io::Result<Vec<(Vec<IpAddr>, Sandbox)>> {
        let attachments = self.all_attachments()?.into_iter();
        let attached = attachments.filter_map(|(entry, attachment)| {
            let sandbox = Sandbox {
                owner: Owner::from_file_name(&entry)?,
                netns: attachment.netns,
                minutes: attachment.minutes,
            };
            Some((attachment.addresses, sandbox))
        });
        let reservations = self.all_reservations()?.into_iter();
        let in_use = reservations.filter(|reservation| reservation.released.is_none());
        let reserved = in_use.map(|reservation| {
            let sandbox = Sandbox {
                owner: reservation.owner,
                netns: reservation.netns,
                minutes: reservation.minutes,
            };
            (reservation.addresses, sandbox)
        });
        Ok(attached.chain(reserved).collect())
    }

    /// Makes a lost lease again. `false`: an entry that is not a file, or another owner's lease,
    /// has its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn restore(&mut self, address: IpAddr, owner: &Owner) -> io::Result<bool> {
        match self.lease(address)? {
            Lease::Free | Lease::Broken => self.assign(address, owner, true).map(|()| true),
            Lease::Of(found) => Ok(owner.is(&found)),
            Lease::Foreign => Ok(false),
        }
    }

    /// Removes an address from all attachments and reservations, so that its lease is not made
    /// again.
    ///
    /// # Errors
    /// The index cannot be written.
    pub fn disown(&mut self, address: IpAddr) -> io::Result<()> {
        for (entry, mut attachment) in self.all_attachments()? {
            if attachment.addresses.contains(&address) {
                attachment.addresses.retain(|found| *found != address);
                self.set_entry(&entry, &attachment)?;
            }
        }
        for mut reservation in self.all_reservations()? {
            if reservation.addresses.contains(&address) {
                reservation.addresses.retain(|found| *found != address);
                if reservation.addresses.is_empty() {
                    self.drop_reservation(&reservation)?;
                } else {
                    self.set_reservation(&reservation)?;
                }
            }
        }
        Ok(())
    }

    /// The leases of sandboxes whose network namespace has gone, except addresses kept for pods.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn leaked(&self) -> io::Result<BTreeMap<IpAddr, Sandbox>> {
        let kept = self.kept_addresses()?;
        let mut leaked = BTreeMap::new();
        for (entry, attachment) in self.all_attachments()? {
            if attachment.netns.is_empty() || self.lives(&attachment.netns) {
                continue;
            }
            for address in attachment
                .addresses
                .into_iter()
                .filter(|address| !kept.contains_key(address))
            {
                if let Lease::Of(owner) = self.lease(address)?
                    && owner.file_name() == entry
                {
                    leaked.insert(
                        address,
                        Sandbox {
                            owner,
                            netns: attachment.netns.clone(),
                            minutes: attachment.minutes,
                        },
                    );
                }
            }
        }
        Ok(leaked)
    }
}
