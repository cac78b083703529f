//! Active health checks of one server.
//!
//! The first check decides alone, and so does the first good one of a server that was not up when
//! we began; after that it takes `healthy_after` or `unhealthy_after` in a row. A result that
//! speaks against the verdict is followed by another soon. Checks are spread over their interval,
//! so that gateways started together do not ask together.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_client::Destination;
use net::{Outgoing, Stream, clock};
use telemetry::families;
use wire::h1::{self, HeadLimits};

use super::jittered;
use crate::cluster::Cluster;
use crate::limits::{CHECK_ANSWER, CHECK_DOUBT};
use crate::member::Member;
use crate::settings::{HealthSettings, StatusRange};
use crate::view::host_of;

/// Checks a server for ever.
pub(super) async fn keep(cluster: Arc<Cluster>, member: Arc<Member>, settings: HealthSettings) {
    let labels = |result| [&*cluster.name, result];
    let family = &families::UPSTREAM_CHECKS;
    let passed = cluster.telemetry().counter(family, &labels("ok"));
    let failed = cluster.telemetry().counter(family, &labels("failed"));
    let mut judge = Judge::new(settings.healthy_after, settings.unhealthy_after);
    let request = request(&member, &settings);
    let mut seed = crate::ring::hash(member.name.as_bytes());
    loop {
        let outcome = check(&member.destination, request.clone(), &settings).await;
        match &outcome {
            Ok(()) => passed.inc(),
            Err(_) => failed.inc(),
        }
        if let Some(healthy) = judge.hear(outcome.is_ok()) {
            let why = outcome.err().unwrap_or_default();
            cluster.set_checked(&member, healthy, clock::precise_us() / 1000, &why);
        }
        seed = crate::ring::mix(seed);
        let interval = settings.interval.get();
        let pause = if judge.is_in_doubt() { interval.min(CHECK_DOUBT) } else { interval };
        tokio::time::sleep(jittered(pause, seed)).await;
    }
}

/// Turns single results into a verdict.
struct Judge {
    healthy_after: u32,
    unhealthy_after: u32,
    verdict: Option<bool>,
    /// Results in a row that speak against the verdict.
    against: u32,
    /// It was healthy at some time.
    proved: bool,
}

impl Judge {
    fn new(healthy_after: u32, unhealthy_after: u32) -> Judge {
        Judge { healthy_after, unhealthy_after, verdict: None, against: 0, proved: false }
    }

    /// Whether the next result is worth having soon.
    fn is_in_doubt(&self) -> bool {
        self.against > 0 || !self.proved
    }

    /// Takes a result; the verdict, if this result made one.
    fn hear(&mut self, passed: bool) -> Option<bool> {
        let needed = match self.verdict {
            None => 1,
            // It was not up yet when we began: one good answer is as good a beginning.
            Some(false) if passed && !self.proved => 1,
            Some(verdict) if verdict == passed => {
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
        self.verdict = Some(passed);
        self.proved |= passed;
        self.verdict
    }
}

/// The request of a check; `None` where a connection is enough.
fn request(member: &Member, settings: &HealthSettings) -> Option<Bytes> {
    let path = settings.path.as_ref()?;
    let host = settings.host.as_deref().unwrap_or_else(|| host_of(member));
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tidegate-health\r\n\
         Accept: */*\r\nConnection: close\r\n\r\n"
    );
    Some(Bytes::from(head))
}

/// A connection to a server.
pub(super) async fn connect(destination: &Destination) -> std::io::Result<Stream> {
    match destination {
        Destination::Tcp(address) => Stream::connect_tcp(*address).await,
        Destination::Unix(path) => Stream::connect_unix(path).await,
    }
}

/// One check; the error says what was wrong.
async fn check(
    destination: &Destination,
    request: Option<Bytes>,
    settings: &HealthSettings,
) -> Result<(), String> {
    let within: Duration = settings.timeout.get();
    let asking = async {
        let connected = connect(destination).await;
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        match request {
            Some(request) => ask(&stream, request, settings.status).await,
            None => Ok(()),
        }
    };
    let late = || format!("no answer within {}", settings.timeout);
    tokio::time::timeout(within, asking).await.unwrap_or_else(|_| Err(late()))
}

async fn ask(stream: &Stream, request: Bytes, expected: StatusRange) -> Result<(), String> {
    let mut outgoing = Outgoing::default();
    outgoing.push(request);
    let broken = |error: std::io::Error| format!("the connection failed: {error}");
    stream.send_all(&mut outgoing).await.map_err(broken)?;
    let mut received = BytesMut::new();
    let mut fields = Vec::new();
    while received.len() < CHECK_ANSWER {
        let chunk = stream.receive().await.map_err(broken)?;
        if chunk.is_empty() {
            return Err("the connection was closed before an answer".to_owned());
        }
        received.extend_from_slice(&chunk);
        loop {
            let limits = HeadLimits::default();
            let head = h1::parse_response(&received, &limits, &mut fields, false)
                .map_err(|reject| format!("the answer is malformed: {reject}"))?;
            match head {
                None => break,
                Some(head) if head.is_interim() => drop(received.split_to(head.len)),
                Some(head) if expected.contains(head.status) => return Ok(()),
                Some(head) => return Err(format!("the answer was {}", head.status)),
            }
        }
    }
    Err("the answer has too large a head".to_owned())
}

#[cfg(test)]
mod tests {
    use super::Judge;

    #[test]
    fn the_first_result_decides_and_later_ones_need_company() {
        let mut judge = Judge::new(2, 3);
        let verdicts: Vec<_> =
            [true, true, false, false, true, false, false, false, false, true, true]
                .map(|passed| judge.hear(passed))
                .to_vec();
        let mut expected = vec![None; 11];
        expected[0] = Some(true);
        expected[7] = Some(false);
        expected[10] = Some(true);
        assert_eq!(verdicts, expected);
    }

    #[test]
    fn a_server_that_comes_up_late_needs_one_good_answer() {
        let mut judge = Judge::new(2, 3);
        let results = [false, false, true, false, false, false, true, true];
        let verdicts = results.map(|passed| judge.hear(passed));
        let (up, down) = (Some(true), Some(false));
        assert_eq!(verdicts, [down, None, up, None, None, down, None, up]);
    }
}
