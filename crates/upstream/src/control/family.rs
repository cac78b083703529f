//! Chooses the address family of a server name that has both.
//!
//! IPv4 and IPv6 addresses of a name are nearly always two ways to the same servers, and often only
//! one works: `localhost` is both, and a server listens on one. As separate servers they would
//! count twice, for balancing and for health. So a connection decides: IPv4 if it is accepted, else
//! IPv6 if that is, else the previous family, and then the choice is repeated soon.

use std::net::SocketAddr;
use std::time::Duration;

use net::clock::{self, Moment};
use net::{Stream, timer};

use crate::limits::{CHECK_DOUBT, FAMILY_HOLDS, FAMILY_PROBES, FAMILY_WITHIN};

/// The choice for one name.
#[derive(Default)]
pub(super) struct Family {
    v6: bool,
    /// The choice holds until then.
    until: Option<Moment>,
}

/// The addresses to use, and when to choose again: soon, if none accepted a connection.
pub(super) struct Chosen {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) valid_for: Duration,
}

impl Family {
    pub(super) async fn choose(&mut self, addresses: Vec<SocketAddr>) -> Chosen {
        let (v4, v6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(SocketAddr::is_ipv4);
        if v4.is_empty() || v6.is_empty() {
            let addresses = if v4.is_empty() { v6 } else { v4 };
            return Chosen { addresses, valid_for: Duration::MAX };
        }
        if self.until.is_none_or(|until| until <= clock::now()) {
            let (v4_accepts, v6_accepts) = tokio::join!(accepts(&v4), accepts(&v6));
            self.until = (v4_accepts || v6_accepts).then(|| clock::now().after(FAMILY_HOLDS));
            if v4_accepts || v6_accepts {
                self.v6 = !v4_accepts;
            }
        }
        let valid_for = if self.until.is_some() { FAMILY_HOLDS } else { CHECK_DOUBT };
        Chosen { addresses: if self.v6 { v6 } else { v4 }, valid_for }
    }
}

/// True if one of the first few accepts a connection.
async fn accepts(addresses: &[SocketAddr]) -> bool {
    let probing = async {
        for address in addresses.iter().take(FAMILY_PROBES) {
            if Stream::connect_tcp(*address).await.is_ok() {
                return true;
            }
        }
        false
    };
    timer::within(FAMILY_WITHIN, probing).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use net::worker::block_on_local;
    use net::{Bind, ListenOptions, Listening};

    use super::*;

    fn listen(address: &str) -> (Listening, SocketAddr) {
        let bind = Bind::Tcp(address.parse().unwrap());
        let listening = Listening::bind(&bind, 1, &ListenOptions::default()).unwrap();
        let Bind::Tcp(local) = *listening.local() else { panic!("the listener has TCP") };
        (listening, local)
    }

    #[test]
    fn the_family_that_accepts_connections_is_used() {
        block_on_local(async {
            let (v4, on_v4) = listen("127.0.0.1:0");
            let both = |port| {
                ["127.0.0.1", "::1"].map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).to_vec()
            };
            let mut family = Family::default();
            let chosen = family.choose(both(on_v4.port())).await;
            assert_eq!((chosen.addresses, chosen.valid_for), (vec![on_v4], FAMILY_HOLDS));

            let (_v6, on_v6) = listen("[::1]:0");
            let chosen = Family::default().choose(both(on_v6.port())).await;
            assert_eq!((chosen.addresses, chosen.valid_for), (vec![on_v6], FAMILY_HOLDS));
            // The choice holds for a while, and then it is repeated.
            let chosen = family.choose(both(on_v6.port())).await;
            assert_eq!(chosen.addresses[0].ip(), on_v4.ip());
            family.until = None;
            assert_eq!(family.choose(both(on_v6.port())).await.addresses, [on_v6]);

            // No address accepts connections: keeps the previous family, without certainty.
            let closed = on_v4.port();
            drop(v4);
            family.until = None;
            let chosen = family.choose(both(closed)).await;
            assert_eq!(chosen.addresses, [SocketAddr::new(on_v6.ip(), closed)]);
            assert_eq!(chosen.valid_for, CHECK_DOUBT);
        });
    }

    #[test]
    fn a_single_family_is_used_without_a_connection() {
        block_on_local(async {
            for listed in [["192.0.2.1:1", "192.0.2.2:1"], ["[2001:db8::1]:1", "[2001:db8::2]:1"]] {
                let listed = listed.map(|address| address.parse().unwrap()).to_vec();
                let chosen = Family::default().choose(listed.clone()).await;
                assert_eq!((chosen.addresses, chosen.valid_for), (listed, Duration::MAX));
            }
        });
    }
}
