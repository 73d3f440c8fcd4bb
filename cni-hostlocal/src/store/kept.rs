//! The reservations: addresses that a pod keeps when its sandbox has gone.

use std::{
    cmp::Reverse,
    collections::HashMap,
    io::{self},
    net::IpAddr,
    path::PathBuf,
};

use super::{
    Lease, Store,
    files::{names, read_line, remove_empty, remove_file, write_line},
};
use crate::{
    config::document::Sync,
    node,
    record::{Pod, Reservation},
};

const PODS: &str = "pods";
const RELEASED: &str = "released";
const DUE: &str = "due";
const MAX_MINUTES: &str = "max-minutes";
/// Reservations that end within so many seconds of each other are ended together.
const BUCKET: u64 = 10;

impl Store {
    pub(super) fn pods(&self) -> PathBuf {
        self.state.join(PODS)
    }

    /// The reservation of a pod for an interface. One of the known patch is taken over.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn reservation(&mut self, pod: &Pod, interface: &str) -> io::Result<Option<Reservation>> {
        let found = read_line(&self.pods().join(pod.file_name(interface)))?
            .and_then(|line| Reservation::parse(&line));
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
            all.extend(
                read_line(&directory.join(name))?.and_then(|line| Reservation::parse(&line)),
            );
        }
        Ok(all)
    }

    /// Writes a reservation.
    ///
    /// # Errors
    /// A file cannot be written; then it is as before.
    pub fn set_reservation(&mut self, reservation: &Reservation) -> io::Result<()> {
        let directory = self.pods();
        write_line(
            &directory,
            &reservation.pod.file_name(&reservation.owner.interface),
            &reservation.line(),
        )?;
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
        let before = reservation.clone();
        reservation.released = Some(self.now);
        reservation.minutes = self.at_most(reservation.minutes);
        self.reschedule(&before, reservation)
    }

    pub(super) fn at_most(&self, minutes: u32) -> u32 {
        self.max_minutes.map_or(minutes, |most| most.min(minutes))
    }

    /// Writes a reservation that ends at another time than `before`, and the time with it.
    fn reschedule(&mut self, before: &Reservation, reservation: &Reservation) -> io::Result<()> {
        if let Some(ends) = reservation.ends() {
            self.schedule(
                ends,
                &reservation.pod.file_name(&reservation.owner.interface),
            )?;
        }
        self.set_reservation(reservation)?;
        if before.ends().map(bucket) != reservation.ends().map(bucket) {
            self.unschedule(before)
        } else {
            Ok(())
        }
    }

    /// Ends a reservation and frees its addresses.
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
    /// A file cannot be removed.
    pub fn drop_reservation(&mut self, reservation: &Reservation) -> io::Result<()> {
        remove_file(
            &self
                .pods()
                .join(reservation.pod.file_name(&reservation.owner.interface)),
        )?;
        self.unschedule(reservation)
    }

    /// Notes that a reservation ends at `ends`. `due` is written first: too early is harmless.
    fn schedule(&mut self, ends: u64, name: &str) -> io::Result<()> {
        let bucket = bucket(ends);
        if self.due()?.is_none_or(|due| bucket < due) {
            write_line(&self.state, DUE, &bucket.to_string())?;
        }
        write_line(&self.bucket_directory(bucket), name, "-")
    }

    /// Removes the note about the end of a released reservation. This comes last, because a note of
    /// a missing reservation is ignored at its time.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn unschedule(&mut self, reservation: &Reservation) -> io::Result<()> {
        let Some(ends) = reservation.ends() else {
            return Ok(());
        };
        let directory = self.bucket_directory(bucket(ends));
        remove_file(&directory.join(reservation.pod.file_name(&reservation.owner.interface)))?;
        remove_empty(&directory)
    }

    fn bucket_directory(&self, bucket: u64) -> PathBuf {
        self.state.join(RELEASED).join(format!("{bucket:012}"))
    }

    /// The maximum number of minutes of the last call with a configuration. `None` without such a
    /// call.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn recorded_max_minutes(&self) -> io::Result<Option<u32>> {
        Ok(read_line(&self.state.join(MAX_MINUTES))?.and_then(|minutes| minutes.parse().ok()))
    }

    /// Records the configuration's maximum of minutes if it differs from the last call's. If it is
    /// lower, reservations that were to last longer end earlier.
    pub(super) fn settle_max_minutes(&mut self) -> io::Result<()> {
        let recorded = self.recorded_max_minutes()?;
        let Some(most) = self.max_minutes else {
            // A command without a configuration.
            self.max_minutes = recorded;
            return Ok(());
        };
        if recorded == Some(most) {
            return Ok(());
        }
        if recorded.is_none_or(|recorded| most < recorded) {
            for reservation in self.all_reservations()? {
                self.shorten(&reservation, most)?;
            }
        }
        if recorded.is_none() {
            self.drop_stale_notes()?;
        }
        write_line(&self.state, MAX_MINUTES, &most.to_string())
    }

    /// Lets a reservation last for at most `most` minutes.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn shorten(&mut self, reservation: &Reservation, most: u32) -> io::Result<()> {
        if reservation.minutes <= most {
            return Ok(());
        }
        self.reschedule(
            reservation,
            &Reservation {
                minutes: most,
                ..reservation.clone()
            },
        )
    }

    /// Removes the notes that earlier versions left of reservations that were taken up or ended
    /// early.
    fn drop_stale_notes(&mut self) -> io::Result<()> {
        let released = self.state.join(RELEASED);
        for time in names(&released)? {
            let directory = released.join(&time);
            for name in names(&directory)? {
                let found =
                    read_line(&self.pods().join(&name))?.and_then(|line| Reservation::parse(&line));
                let ends = found.and_then(|found| found.ends()).map(bucket);
                if ends.is_none() || ends != time.parse().ok() {
                    remove_file(&directory.join(name))?;
                }
            }
            remove_empty(&directory)?;
        }
        Ok(())
    }

    fn due(&self) -> io::Result<Option<u64>> {
        Ok(read_line(&self.state.join(DUE))?.and_then(|due| due.parse().ok()))
    }

    /// Ends the reservations whose time is over, without reading any others.
    pub(super) fn end_due(&mut self) -> io::Result<()> {
        if self.due()?.is_none_or(|due| due > self.now) {
            return Ok(());
        }
        let released = self.state.join(RELEASED);
        let mut buckets = names(&released)?;
        buckets.sort_unstable();
        let mut next: Option<u64> = None;
        for name in buckets {
            let time = name.parse().unwrap_or(0);
            if time > self.now {
                next = next.into_iter().chain([time]).min();
                break;
            }
            let directory = released.join(name);
            for name in names(&directory)? {
                let reservation =
                    read_line(&self.pods().join(&name))?.and_then(|line| Reservation::parse(&line));
                // It may have been taken up or released anew since; then it is in another bucket.
                if let Some(mut over) =
                    reservation.filter(|found| found.ends().is_some_and(|ends| ends <= self.now))
                {
                    // The clock was not set at the release, so the time since then is not known: it
                    // starts now.
                    if over.released < Some(node::EARLIEST) && self.now >= node::EARLIEST {
                        self.release(&mut over)?;
                        next = over.ends().map(bucket).into_iter().chain(next).min();
                    } else {
                        self.end(&over)?;
                    }
                }
                remove_file(&directory.join(name))?;
            }
            remove_empty(&directory)?;
        }
        match next {
            Some(next) => write_line(&self.state, DUE, &next.to_string()),
            None => remove_file(&self.state.join(DUE)),
        }
    }

    /// The reservation that ends when all addresses for which `wanted` is true are taken. It is the
    /// one that was released first, of the namespace that keeps the most such addresses unused. So
    /// a namespace that reserves much loses its reservations first, and cannot push out earlier
    /// ones of others.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn next_to_give_way(
        &self,
        wanted: impl Fn(IpAddr) -> bool,
    ) -> io::Result<Option<Reservation>> {
        let mut all = self.all_reservations()?;
        all.retain(|found| {
            found.released.is_some() && found.addresses.iter().any(|address| wanted(*address))
        });
        let mut kept: HashMap<String, usize> = HashMap::new();
        for found in &all {
            let addresses = found
                .addresses
                .iter()
                .filter(|address| wanted(**address))
                .count();
            *kept.entry(found.pod.namespace.clone()).or_default() += addresses;
        }
        all.sort_by_key(|found| {
            (
                Reverse(kept.get(&found.pod.namespace).copied()),
                found.released,
            )
        });
        for found in all {
            for address in &found.addresses {
                if wanted(*address)
                    && matches!(self.lease(*address)?, Lease::Of(owner) if found.holds(&owner))
                {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }
}

/// The end of the bucket for reservations that end at `ends`.
fn bucket(ends: u64) -> u64 {
    ends.div_ceil(BUCKET).saturating_mul(BUCKET)
}
