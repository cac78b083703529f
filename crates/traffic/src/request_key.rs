//! What a limit counts requests by: a text of the request, or the client's address.

use std::net::IpAddr;

use message::Request;
use plugin::variables;
use settings::{Key, Variable};

/// The key of a limit, ready to be read from requests.
pub(crate) struct RequestKey {
    /// `None` if it is the client's address, which needs no text.
    key: Option<Key>,
    ipv6_mask: u128,
}

impl RequestKey {
    /// `ipv6_prefix` is 1 to 128.
    pub(crate) fn new(key: &Key, ipv6_prefix: u8) -> RequestKey {
        let is_address = key.variable() == Some(&Variable::ClientIp);
        RequestKey {
            key: (!is_address).then(|| key.clone()),
            ipv6_mask: u128::MAX << (128 - u32::from(ipv6_prefix)),
        }
    }

    /// Calls `using` with the key of a request.
    #[inline]
    pub(crate) fn with<R>(&self, request: &Request, using: impl FnOnce(&[u8]) -> R) -> R {
        match &self.key {
            None => match request.client_ip {
                IpAddr::V4(address) => using(&address.octets()),
                IpAddr::V6(address) => using(&(address.to_bits() & self.ipv6_mask).to_be_bytes()),
            },
            Some(key) => using(&variables::key(key, request)),
        }
    }
}
