//! What Redis says about other servers: the slots of a Cluster, redirections; and addresses.

use crate::{FuzzTarget, owned};
use redis::{RedisAddress, SLOTS, SlotMap, decode, redirection, slot};
use wire::resp::reply::{Limits, Reader};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: topology,
    seeds: || {
        owned(&[
            concat!(
                "*2\r\n*3\r\n:0\r\n:99\r\n*2\r\n$1\r\na\r\n:1\r\n",
                "*3\r\n:100\r\n:16383\r\n*2\r\n$-1\r\n:2\r\n"
            ),
            "*1\r\n*4\r\n:5\r\n:5\r\n*3\r\n$0\r\n\r\n:7000\r\n$2\r\nid\r\n*0\r\n",
            "MOVED 3999 127.0.0.1:6381",
            "ASK 3999 ::1:6381",
            "MOVED 1 :7000",
            "redis://redis.internal:6379/",
            "rediss://[::1]:7",
            "unix:/run/redis.sock",
            "{user1000}.following",
        ])
    },
    dictionary: &[
        "*2\r\n",
        ":16383\r\n",
        "$-1\r\n",
        "MOVED ",
        "ASK ",
        "redis://",
        "unix:/",
        "{",
        "}",
    ],
    cases: 5_000,
};

fn topology(data: &[u8]) {
    assert!(slot(data) < SLOTS);
    if let Ok(text) = std::str::from_utf8(data) {
        if let Ok(address) = text.parse::<RedisAddress>() {
            let shown = address.to_string();
            assert_eq!(shown.parse::<RedisAddress>().as_ref(), Ok(&address), "{shown}");
        }
        if let Some(to) = redirection(text, "asked") {
            let (host, port) = to.node.rsplit_once(':').expect("a host and a port");
            assert!(!host.is_empty() && port.parse::<u16>().is_ok(), "{}", to.node);
        }
    }
    let mut reader = Reader::default();
    let Ok(Some(length)) = reader.read(data, &Limits::default()) else { return };
    let Ok(reply) = decode(&data[..length], &reader) else { return };
    let Some(map) = SlotMap::read(&reply, "asked") else { return };
    for slot in (0..SLOTS).step_by(97) {
        let port = map.node(slot).map(|node| node.rsplit_once(':').map(|(_, port)| port));
        assert!(port.is_none_or(|port| port.is_some_and(|port| port.parse::<u16>().is_ok())));
    }
}
