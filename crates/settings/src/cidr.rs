//! Ranges of addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

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
            return Ok(Cidr(IpNet::from(ip)));
        }
        let net: IpNet = text.parse().map_err(|_| "is not a range of addresses".to_owned())?;
        // `10.1.2.3/8` is a slip: which part was meant?
        if net.addr() != net.network() {
            return Err(format!("has bits set after its prefix: write {}", net.trunc()));
        }
        Ok(Cidr(net))
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
    fn refuses_with_a_reason() {
        for (text, why) in [
            ("10.1.2.3/8", "write 10.0.0.0/8"),
            ("10.0.0.0/33", "is not a range"),
            ("localhost", "is not a range"),
            ("", "is not a range"),
        ] {
            let out = read::<Cidr>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }
}
