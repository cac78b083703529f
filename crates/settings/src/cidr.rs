//! Ranges of addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};

use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

/// The bits in which all IPv4 addresses that are written as IPv6 are the same (`::ffff:0:0/96`).
const MAPPED_BITS: u8 = 96;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr(IpNet);

impl Cidr {
    pub fn net(&self) -> IpNet {
        self.0
    }

    /// Is this address in the range? An IPv4 address seen through an IPv6 socket
    /// (`::ffff:10.0.0.1`) counts as IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.0.contains(&ip.to_canonical())
    }
}

/// Is this address in any of the ranges?
pub fn any_contains(ranges: &[Cidr], ip: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(ip))
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Cidr(IpNet::from(ip.to_canonical())));
        }
        let net: IpNet = text.parse().map_err(|_| no_range(text))?;
        // Addresses are compared in their canonical form: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
        let mapped = match net.addr() {
            IpAddr::V6(ip) => ip.to_ipv4_mapped(),
            IpAddr::V4(_) => None,
        };
        let net = match mapped {
            None => net,
            Some(ip) => {
                let bits = net.prefix_len().checked_sub(MAPPED_BITS);
                let net = bits.and_then(|bits| Ipv4Net::new(ip, bits).ok());
                IpNet::V4(net.ok_or("has IPv4 addresses and others: write it as IPv4")?)
            }
        };
        // `10.1.2.3/8` is a slip: which part was meant?
        if net.addr() != net.network() {
            return Err(format!("has bits set after its prefix: write {}", net.trunc()));
        }
        Ok(Cidr(net))
    }
}

/// Why a text is not a range.
fn no_range(text: &str) -> String {
    let parts =
        text.split_once('/').and_then(|(ip, bits)| Some((ip.parse::<IpAddr>().ok()?, bits)));
    match parts {
        Some((ip, bits)) if !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) => {
            let (version, most) = if ip.is_ipv4() { (4, 32) } else { (6, 128) };
            format!("has a prefix length of {bits}: at most {most} for IPv{version}")
        }
        _ => "is not a range of addresses".to_owned(),
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() {
            return self.0.addr().fmt(f);
        }
        self.0.fmt(f)
    }
}

impl Setting for Cidr {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("address range", "^[0-9a-fA-F:.]+(/[0-9]{1,3})?$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a range such as 10.0.0.0/8, 2001:db8::/32, or one address")
    }
}

#[cfg(test)]
mod tests {
    use super::{Cidr, any_contains};
    use crate::{node, read};

    #[test]
    fn ranges_contain() {
        let ranges: Vec<Cidr> = read(&node!(["10.0.0.0/8", "::1", "192.168.1.7"])).unwrap();
        for (ip, inside) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("11.0.0.1", false),
            ("::1", true),
            ("::2", false),
            ("192.168.1.7", true),
            ("192.168.1.8", false),
        ] {
            assert_eq!(any_contains(&ranges, ip.parse().unwrap()), inside, "{ip}");
        }
        let shown: Vec<_> = ranges.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.0/8", "::1", "192.168.1.7"]);
    }

    #[test]
    fn ranges_of_mapped_addresses_are_those_of_ipv4() {
        for (written, ip, shown) in [
            ("::ffff:10.0.0.0/104", "10.1.2.3", "10.0.0.0/8"),
            ("::ffff:a00:0/104", "::ffff:10.1.2.3", "10.0.0.0/8"),
            ("::ffff:10.1.2.3", "10.1.2.3", "10.1.2.3"),
            ("::ffff:0:0/96", "192.0.2.1", "0.0.0.0/0"),
        ] {
            let range: Cidr = read(&node!(written)).unwrap();
            assert!(range.contains(ip.parse().unwrap()), "{written}");
            assert_eq!(range.to_string(), shown);
        }
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, why) in [
            ("10.1.2.3/8", "write 10.0.0.0/8"),
            ("10.0.0.0/33", "\"10.0.0.0/33\" has a prefix length of 33: at most 32 for IPv4"),
            ("::/129", "at most 128 for IPv6"),
            ("::ffff:10.0.0.0/95", "write it as IPv4"),
            ("::ffff:10.1.2.3/104", "write 10.0.0.0/8"),
            ("10.0.0.0/", "is not a range"),
            ("10.0.0.0/x", "is not a range"),
            ("localhost", "is not a range"),
            ("", "is not a range"),
        ] {
            let out = read::<Cidr>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }
}
