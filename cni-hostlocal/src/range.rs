//! Ranges of addresses, checked, and sets of them.

use std::{fmt, net::IpAddr};

/// A network: an address without host bits, and how many bits of it are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    /// The network's address.
    pub address: IpAddr,
    /// The length of its prefix in bits.
    pub prefix: u8,
}

/// The addresses of one subnet that may be given. The gateway may lie among them and is never
/// given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The subnet, whose prefix every address gets.
    pub subnet: Subnet,
    /// The first address, inclusive.
    pub start: IpAddr,
    /// The last address, inclusive.
    pub end: IpAddr,
    /// The gateway of the subnet.
    pub gateway: IpAddr,
}

/// Ranges of one family that do not overlap. An attachment gets one address of each set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSet(Vec<Range>);

/// The IPv4 address if an address is an IPv4 address that is written as IPv6 (`::ffff:10.0.0.1`),
/// otherwise the address itself.
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// An address as a number.
pub fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address with this number, of the family of `like`.
pub fn from_bits(like: IpAddr, bits: u128) -> IpAddr {
    match like {
        // Numbers of an IPv4 range have 32 bits.
        IpAddr::V4(_) => IpAddr::V4(u32::try_from(bits).unwrap_or(u32::MAX).into()),
        IpAddr::V6(_) => IpAddr::V6(bits.into()),
    }
}

/// `10.1.2.3/24` as an address and a length. Without a length it gets the full length of its
/// family.
pub fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = match text.split_once('/') {
        None => (text, None),
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
    };
    let address = canonical(address.parse().ok()?);
    let longest = address_bits(address);
    let length = length.unwrap_or(longest);
    (length <= longest).then_some((address, length))
}

/// The length in bits of an address of this family.
fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Subnet {
    /// A mask of the bits that the prefix does not fix.
    fn host_bits(&self) -> u128 {
        match u32::from(address_bits(self.address) - self.prefix) {
            128 => u128::MAX,
            free => (1 << free) - 1,
        }
    }

    /// Whether `address` lies in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && bits(address) & !self.host_bits() == bits(self.address)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.prefix)
    }
}

impl Range {
    /// A range with defaults for missing values: the gateway is the first address. The range goes
    /// from there to the last address, which for IPv4 is the one before the broadcast address.
    ///
    /// # Errors
    /// The reason why there is no such range.
    pub fn new(
        subnet: (IpAddr, u8),
        start: Option<IpAddr>,
        end: Option<IpAddr>,
        gateway: Option<IpAddr>,
    ) -> Result<Self, String> {
        let subnet = Subnet {
            address: subnet.0,
            prefix: subnet.1,
        };
        if subnet.prefix > address_bits(subnet.address) - 2 {
            return Err(format!("Network {subnet} too small to allocate from"));
        }
        let network = from_bits(subnet.address, bits(subnet.address) & !subnet.host_bits());
        if network != subnet.address {
            return Err(format!(
                "Network has host bits set. For a subnet mask of length {} the network address is {network}",
                subnet.prefix
            ));
        }
        let first = from_bits(network, bits(network) + 1);
        let last = bits(network) | subnet.host_bits();
        let last = from_bits(network, if network.is_ipv4() { last - 1 } else { last });
        let within = |name: &str, address: Option<IpAddr>, otherwise| match address.map(canonical) {
            None => Ok(otherwise),
            Some(address) if subnet.contains(address) => Ok(address),
            Some(address) => Err(format!("{name} {address} not in network {subnet}")),
        };
        let start = within("RangeStart", start, first)?;
        let end = within("RangeEnd", end, last)?;
        if bits(end) < bits(start) {
            return Err(format!(
                "RangeEnd {end} not in network {subnet} from RangeStart {start} on"
            ));
        }
        Ok(Self {
            subnet,
            start,
            end,
            gateway: gateway.map_or(first, canonical),
        })
    }

    /// Whether `address` is between the first and the last address, even if it is the gateway.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.start.is_ipv4() == address.is_ipv4()
            && (bits(self.start)..=bits(self.end)).contains(&bits(address))
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start.is_ipv4() == other.start.is_ipv4()
            && bits(self.start) <= bits(other.end)
            && bits(other.start) <= bits(self.end)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.start, self.end)
    }
}

impl RangeSet {
    /// A set of ranges.
    ///
    /// # Errors
    /// The reason why these are no set: no range, two families, or two that overlap.
    pub fn new(ranges: Vec<Range>) -> Result<Self, String> {
        let Some(first) = ranges.first() else {
            return Err("empty range set".into());
        };
        if ranges
            .iter()
            .any(|range| range.start.is_ipv4() != first.start.is_ipv4())
        {
            return Err("mixed address families".into());
        }
        for (index, range) in ranges.iter().enumerate() {
            if let Some(other) = ranges
                .iter()
                .skip(index + 1)
                .find(|other| range.overlaps(other))
            {
                return Err(format!("subnets {range} and {other} overlap"));
            }
        }
        Ok(Self(ranges))
    }

    /// The ranges; there is at least one.
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// Whether its addresses are IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.0.first().is_some_and(|range| range.start.is_ipv4())
    }

    /// The range that has this address.
    pub fn range_of(&self, address: IpAddr) -> Option<&Range> {
        self.0.iter().find(|range| range.contains(address))
    }

    /// Whether an address is in both sets.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.0
            .iter()
            .any(|range| other.0.iter().any(|other| range.overlaps(other)))
    }
}

impl fmt::Display for RangeSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        out.write_str(&ranges.join(","))
    }
}
