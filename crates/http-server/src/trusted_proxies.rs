//! Lists of proxies that a listener trusts.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

/// Peers whose forwarding fields are believed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> TrustedProxies {
        TrustedProxies(networks.into_iter().collect())
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}
