//! Which node of a Cluster has which keys (Redis Cluster specification).

use std::collections::BTreeMap;

use store::{RedisAddress, Reply};

use crate::limits::NODES;

/// Slots of a Cluster.
pub const SLOTS: u16 = 16384;

/// The slot of a key: CRC16 of the key, or of what its first braces contain.
pub fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        Some(0) | None => key,
        Some(close) => &inside[..close],
    }
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            let carried = crc << 1;
            if crc & 0x8000 == 0 { carried } else { carried ^ 0x1021 }
        })
    })
}

/// The primaries of a Cluster by their ranges of slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMap {
    /// By the first slot: the last slot, and the address as `HOST:PORT`.
    ranges: BTreeMap<u16, (u16, String)>,
}

impl SlotMap {
    /// Reads the reply to `CLUSTER SLOTS`; `asked` is the host of the node that sent it.
    pub fn read(reply: &Reply, asked: &str) -> Option<SlotMap> {
        let Reply::List(entries) = reply else { return None };
        let mut map = SlotMap::default();
        for entry in entries {
            let Reply::List(entry) = entry else { return None };
            let [Reply::Integer(first), Reply::Integer(last), Reply::List(primary), ..] =
                &entry[..]
            else {
                return None;
            };
            let [host, Reply::Integer(port), ..] = &primary[..] else { return None };
            let host = match host {
                Reply::Bytes(host) => std::str::from_utf8(host).ok()?,
                Reply::Nothing => "",
                _ => return None,
            };
            // A node that does not know its own name is the one that was asked.
            let host = if matches!(host, "" | "?") { asked } else { host };
            let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
            let port = u16::try_from(*port).ok().filter(|port| *port != 0)?;
            if first > last || last >= SLOTS || map.ranges.len() == NODES {
                return None;
            }
            map.ranges.insert(first, (last, format!("{host}:{port}")));
        }
        Some(map)
    }

    /// The node that has a slot, as `HOST:PORT`.
    pub fn node(&self, slot: u16) -> Option<&str> {
        let (_, (last, node)) = self.ranges.range(..=slot).next_back()?;
        (slot <= *last).then_some(node)
    }

    /// Every node once.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.ranges.values().map(|(_, node)| &**node)
    }
}

/// Where a command has to be sent instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// `HOST:PORT`.
    pub node: String,
    /// For this command only: the slot is being moved.
    pub asks: bool,
}

/// Reads `MOVED SLOT HOST:PORT` and `ASK SLOT HOST:PORT`; `asked` is the host that replied.
pub fn redirection(error: &str, asked: &str) -> Option<Redirection> {
    let mut words = error.split(' ');
    let asks = match words.next()? {
        "MOVED" => false,
        "ASK" => true,
        _ => return None,
    };
    let node = words.nth(1)?;
    let (host, port) = node.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let host = match host {
        "" => asked,
        host => host,
    };
    Some(Redirection { node: format!("{host}:{port}"), asks })
}

/// The address of a node from `HOST:PORT`.
pub(crate) fn address_of(node: &str, is_secure: bool) -> Option<RedisAddress> {
    let (host, port) = node.rsplit_once(':')?;
    Some(RedisAddress::named(host, port.parse().ok()?, is_secure))
}

#[cfg(test)]
mod tests {
    use super::{Redirection, SlotMap, redirection, slot};
    use store::Reply;

    #[test]
    fn slots_are_those_of_the_specification() {
        for (key, expected) in [
            ("123456789", 0x31c3),
            ("foo", 12182),
            ("{user1000}.following", slot(b"user1000")),
            ("foo{}{bar}", slot(b"foo{}{bar}")),
            ("foo{{bar}}zap", slot(b"{bar")),
            ("foo{bar}{zap}", slot(b"bar")),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }

    fn text(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec().into())
    }

    fn range(first: i64, last: i64, host: Reply, port: i64) -> Reply {
        let node = Reply::List(vec![host, Reply::Integer(port), text("id")]);
        Reply::List(vec![Reply::Integer(first), Reply::Integer(last), node])
    }

    #[test]
    fn slots_belong_to_nodes() {
        let reply =
            Reply::List(vec![range(0, 99, text("a"), 1), range(200, 16383, Reply::Nothing, 2)]);
        let map = SlotMap::read(&reply, "asked").unwrap();
        let node = |slot| map.node(slot);
        assert_eq!((node(0), node(99), node(100)), (Some("a:1"), Some("a:1"), None));
        assert_eq!((node(200), node(16383)), (Some("asked:2"), Some("asked:2")));
        for broken in [
            range(9, 8, text("a"), 1),
            range(0, 16384, text("a"), 1),
            range(0, 1, text("a"), 0),
            range(-1, 1, text("a"), 1),
            Reply::Nothing,
        ] {
            assert_eq!(SlotMap::read(&Reply::List(vec![broken]), "asked"), None);
        }
    }

    #[test]
    fn redirections_are_read() {
        let read = |error| redirection(error, "asked");
        let to = |node: &str, asks| Some(Redirection { node: node.to_owned(), asks });
        assert_eq!(read("MOVED 3999 10.0.0.1:6381"), to("10.0.0.1:6381", false));
        assert_eq!(read("ASK 3999 ::1:6381"), to("::1:6381", true));
        assert_eq!(read("MOVED 3999 :6381"), to("asked:6381", false));
        for other in ["MOVED 3999", "ASK 1 a", "ERR no", "MOVED 1 a:x", ""] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
