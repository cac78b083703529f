//! The key of a limit: a text of the request, or the client's address.

use std::net::IpAddr;

use message::Request;
use plugin::variables;
use settings::{Key, Node, Reader, Variable};

/// The key of a limit, ready to be read from requests.
pub(crate) struct RequestKey {
    /// `None` if it is the client's address, which needs no text.
    key: Option<Key>,
    ipv6_mask: u128,
}

/// Reports an `ipv6_prefix` where no key is the client's address.
pub(crate) fn check_ipv6_prefix<'k>(
    keys: impl IntoIterator<Item = &'k Key>,
    node: &Node,
    reader: &mut Reader<'_>,
) {
    if !keys.into_iter().any(is_address) {
        reader.no_effect(node, &["ipv6_prefix"], "the key is not client_ip");
    }
}

fn is_address(key: &Key) -> bool {
    key.variable() == Some(&Variable::ClientIp)
}

impl RequestKey {
    /// `ipv6_prefix` is 1 to 128.
    pub(crate) fn new(key: &Key, ipv6_prefix: u8) -> RequestKey {
        RequestKey {
            key: (!is_address(key)).then(|| key.clone()),
            ipv6_mask: u128::MAX << (128 - u32::from(ipv6_prefix)),
        }
    }

    /// Calls `using` with the key of a request.
    #[inline]
    pub(crate) fn with<R>(&self, request: &Request, using: impl FnOnce(&[u8]) -> R) -> R {
        match &self.key {
            None => self.with_address(request.client_ip, using),
            Some(key) => using(&variables::key(key, request)),
        }
    }

    /// Calls `using` with the key that a text stands for: an address or the text itself.
    pub(crate) fn with_text<R>(&self, text: &str, using: impl FnOnce(&[u8]) -> R) -> R {
        match text.parse::<IpAddr>().ok().filter(|_| self.key.is_none()) {
            Some(address) => self.with_address(address, using),
            None => using(text.as_bytes()),
        }
    }

    fn with_address<R>(&self, address: IpAddr, using: impl FnOnce(&[u8]) -> R) -> R {
        match address {
            IpAddr::V4(address) => using(&address.octets()),
            IpAddr::V6(address) => using(&(address.to_bits() & self.ipv6_mask).to_be_bytes()),
        }
    }
}
