//! Active health checks of one server.
//!
//! The first check alone decides, and so does the first successful one of a server that has not
//! been healthy before; after that `healthy_after` or `unhealthy_after` results in a row are
//! needed. A result that contradicts the current health is followed by another check soon. Checks
//! are spread over their interval, so that gateways started together do not check together.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_client::{Endpoint, ProxyHeader};
use net::{Outgoing, Stream, clock};
use telemetry::families;
use wire::h1::{self, HeadLimits};

use super::probe::{Probe, broken};
use super::{http2_check, jittered};
use crate::cluster::Cluster;
use crate::limits::{CHECK_DOUBT, CHECK_RESPONSE};
use crate::member::Member;
use crate::proxy_header::own_header;
use crate::settings::HealthSettings;
use crate::status_range::StatusRange;

/// Checks a server until it is dropped.
pub(super) async fn keep(cluster: Arc<Cluster>, member: Arc<Member>, settings: HealthSettings) {
    let labels = |result| [&*cluster.name, result];
    let family = &families::UPSTREAM_CHECKS;
    let passed = cluster.telemetry().counter(family, &labels("ok"));
    let failed = cluster.telemetry().counter(family, &labels("failed"));
    let mut tracker = HealthTracker::new(settings.healthy_after, settings.unhealthy_after);
    let request = request(&member, &settings);
    let mut seed = crate::ring::hash(member.name.as_bytes());
    loop {
        let header = own_header(&cluster.snapshot().settings);
        let outcome = check(&member.endpoint, header, request.as_ref(), &settings).await;
        match &outcome {
            Ok(()) => passed.inc(),
            Err(_) => failed.inc(),
        }
        if let Some(healthy) = tracker.record(outcome.is_ok()) {
            let why = outcome.err().unwrap_or_default();
            cluster.set_checked(&member, healthy, clock::precise_us() / 1000, &why);
        }
        seed = crate::ring::mix(seed);
        let interval = settings.interval.get();
        let pause = if tracker.is_in_doubt() { interval.min(CHECK_DOUBT) } else { interval };
        net::timer::sleep(jittered(pause, seed)).await;
    }
}

/// Derives the health of a server from results of checks.
struct HealthTracker {
    healthy_after: u32,
    unhealthy_after: u32,
    healthy: Option<bool>,
    /// Results in a row that contradict the current health.
    against: u32,
    /// True if the server was healthy at some time.
    proved: bool,
}

impl HealthTracker {
    fn new(healthy_after: u32, unhealthy_after: u32) -> HealthTracker {
        HealthTracker { healthy_after, unhealthy_after, healthy: None, against: 0, proved: false }
    }

    /// True if the next check should follow soon.
    fn is_in_doubt(&self) -> bool {
        self.against > 0 || !self.proved
    }

    /// Records a result; returns the health if this result changed it.
    fn record(&mut self, passed: bool) -> Option<bool> {
        let needed = match self.healthy {
            None => 1,
            // The server has not been healthy yet, so one success suffices, as for a first check.
            Some(false) if passed && !self.proved => 1,
            Some(healthy) if healthy == passed => {
                self.against = 0;
                return None;
            }
            Some(true) => self.unhealthy_after,
            Some(false) => self.healthy_after,
        };
        self.against += 1;
        if self.against < needed {
            return None;
        }
        self.against = 0;
        self.healthy = Some(passed);
        self.proved |= passed;
        self.healthy
    }
}

/// The request of a check and its Host; `None` if a connection is enough.
fn request(member: &Member, settings: &HealthSettings) -> Option<(Probe, String)> {
    let get = settings.path.clone().map(|path| Probe::Get { path, expected: settings.status });
    let grpc = settings.grpc.clone().map(|service| Probe::Grpc { service });
    let host = settings.host.clone().unwrap_or_else(|| member.authority.to_string());
    Some((grpc.or(get)?, host))
}

/// Performs one check; the error is the reason for the log.
async fn check(
    endpoint: &Endpoint,
    header: Option<ProxyHeader>,
    request: Option<&(Probe, String)>,
    settings: &HealthSettings,
) -> Result<(), String> {
    let within: Duration = settings.timeout.get();
    let checking = async {
        let connected = endpoint.connect(header.as_ref()).await;
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        match request {
            Some((probe, host)) if endpoint.is_http2(&stream) => {
                http2_check::exchange(&stream, host, probe).await
            }
            Some((Probe::Get { path, expected }, host)) => {
                exchange(&stream, host, path, *expected).await
            }
            Some((Probe::Grpc { .. }, _)) => Err("the server does not offer HTTP/2".to_owned()),
            None => Ok(()),
        }
    };
    let late = || format!("no response within {}", settings.timeout);
    net::timer::within(within, checking).await.unwrap_or_else(|| Err(late()))
}

async fn exchange(
    stream: &Stream,
    host: &str,
    path: &str,
    expected: StatusRange,
) -> Result<(), String> {
    let mut outgoing = Outgoing::default();
    outgoing.push(Bytes::from(format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tidegate-health\r\n\
         Accept: */*\r\nConnection: close\r\n\r\n"
    )));
    stream.send_all(&mut outgoing).await.map_err(broken)?;
    let mut received = BytesMut::new();
    let mut fields = Vec::new();
    while received.len() < CHECK_RESPONSE {
        let chunk = stream.receive().await.map_err(broken)?;
        if chunk.is_empty() {
            return Err("the connection was closed before a response".to_owned());
        }
        received.extend_from_slice(&chunk);
        loop {
            let limits = HeadLimits::default();
            let head = h1::parse_response(&received, &limits, &mut fields, false)
                .map_err(|reject| format!("the response is malformed: {reject}"))?;
            match head {
                None => break,
                Some(head) if head.is_interim() => drop(received.split_to(head.len)),
                Some(head) if expected.contains(head.status) => return Ok(()),
                Some(head) => return Err(format!("the response was {}", head.status)),
            }
        }
    }
    Err("the response head is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::HealthTracker;

    #[test]
    fn the_first_result_decides_and_later_ones_need_a_row() {
        let mut tracker = HealthTracker::new(2, 3);
        let changes: Vec<_> =
            [true, true, false, false, true, false, false, false, false, true, true]
                .map(|passed| tracker.record(passed))
                .to_vec();
        let mut expected = vec![None; 11];
        expected[0] = Some(true);
        expected[7] = Some(false);
        expected[10] = Some(true);
        assert_eq!(changes, expected);
    }

    #[test]
    fn a_server_that_starts_late_needs_one_success() {
        let mut tracker = HealthTracker::new(2, 3);
        let results = [false, false, true, false, false, false, true, true];
        let changes = results.map(|passed| tracker.record(passed));
        let (up, down) = (Some(true), Some(false));
        assert_eq!(changes, [down, None, up, None, None, down, None, up]);
    }
}
