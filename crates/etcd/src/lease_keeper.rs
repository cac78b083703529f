//! Keeps a lease alive.

use std::time::Duration;

use net::{clock, timer};

use crate::client::Etcd;
use crate::error::EtcdError;
use crate::limits::{PAUSE_MAX, RENEW_MIN};
use crate::messages::LeaseKeepAliveRequest;

impl Etcd {
    /// Renews a lease of `ttl` seconds three times in its life, until it is lost: returns why. A
    /// member that fails costs no lease while another one responds in time.
    pub async fn keep_alive(&self, id: i64, ttl: i64) -> EtcdError {
        let mut life = seconds(ttl);
        let mut renewed = clock::now();
        let mut failures = 0;
        loop {
            let wait = match failures {
                0 => (life / 3).max(RENEW_MIN),
                _ => timer::pause(self.settings().pause, PAUSE_MAX, failures - 1),
            };
            timer::sleep(wait).await;
            let begun = clock::now();
            match self.lease_renew(&LeaseKeepAliveRequest { id }).await {
                Ok(response) if response.ttl <= 0 => {
                    return EtcdError::lease_ended(id);
                }
                Ok(response) => {
                    (life, renewed, failures) = (seconds(response.ttl), begun, 0);
                }
                Err(error) if clock::now().since(renewed) >= life || !error.is_passing() => {
                    return error;
                }
                Err(_) => failures += 1,
            }
        }
    }
}

fn seconds(ttl: i64) -> Duration {
    Duration::from_secs(u64::try_from(ttl).unwrap_or(0))
}
