//! Loads a server that another process started: on this machine, or on another one that the user
//! may load.
//!
//! Promises the CPU of the process if exactly one process of this machine listens there; otherwise
//! there is no CPU figure.

use super::ExternalTarget;
use super::execution::Execution;
use super::measure;
use super::record::RecordBuilder;
use crate::cpu::{Tree, listener_at, read};
use crate::load::{Address, Expect, Target, Traffic};
use crate::scenarios::{WAIT, probe, request};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Where a URL points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedTarget {
    pub address: SocketAddr,
    /// As written: the Host of the request.
    host: String,
    path: String,
}

impl ExternalTarget {
    /// Where it is, if it may be loaded.
    pub(crate) fn resolve(&self) -> Result<ResolvedTarget, String> {
        let rest = self
            .url
            .strip_prefix("http://")
            .ok_or_else(|| format!("{}: only http:// can be loaded", self.url))?;
        let (host, path) = match rest.find('/') {
            Some(at) => (&rest[..at], &rest[at..]),
            None => (rest, "/"),
        };
        let clean = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !clean(host) || !clean(path) {
            return Err(format!("{}: not a URL of a server", self.url));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let named = if has_port { host.to_owned() } else { format!("{host}:80") };
        let addresses: Vec<SocketAddr> =
            named.to_socket_addrs().map_err(|why| format!("{host}: {why}"))?.collect();
        let address = *addresses.first().ok_or_else(|| format!("{host}: no address"))?;
        if !self.is_own && !is_of_this_machine(address) {
            return Err(format!(
                "{address} is not of this machine: say --i-own-this-target if you may load it"
            ));
        }
        Ok(ResolvedTarget { address, host: host.to_owned(), path: path.to_owned() })
    }
}

/// Only an address of this machine can be bound.
fn is_of_this_machine(address: SocketAddr) -> bool {
    UdpSocket::bind((address.ip(), 0)).is_ok()
}

impl ResolvedTarget {
    /// Asks twice and takes what comes, if it is the same both times, as the right response.
    pub(crate) fn target(&self) -> Result<Target, String> {
        let request = request(&self.host, &self.path);
        let answer = probe(self.address, &request, Instant::now() + WAIT)?;
        let expect = Expect {
            status: answer.status,
            length: Some(answer.body.len() as u64),
            body: Some(Arc::from(answer.body.as_slice())),
            ..Expect::default()
        };
        let traffic = Traffic::Http { request, expect, keep_alive: true };
        Ok(Target { address: Address::Tcp(self.address), tls: None, traffic })
    }
}

impl Execution<'_> {
    pub(super) fn load_external_target(&mut self) {
        let options = &self.schedule.options;
        let Some(external_target) = &options.external_target else { return };
        self.name_scenario("target", &format!("GET {}", external_target.url), None);
        let target = match external_target.resolve().and_then(|resolved| resolved.target()) {
            Ok(target) => target,
            Err(why) => {
                let mut gathered = RecordBuilder::new(&external_target.url, "target", 0, 1);
                gathered.fail("start", &why);
                self.note(format!("FAILED {}: {why}", external_target.url));
                self.data.records.push(gathered.finish());
                return;
            }
        };
        let Address::Tcp(address) = target.address else { return };
        let server = listener_at(address);
        if let Some(id) = server {
            let name = read(Path::new(&format!("/proc/{id}/comm")));
            let name = name.trim();
            self.note(format!(
                "CPU and memory of {}: those of {name} (process {id})",
                external_target.url
            ));
        }
        let (tree, others) = (server.map(Tree::of), Vec::from_iter(server));
        for connections in self.schedule.target_connections() {
            let mut gathered = RecordBuilder::new(&external_target.url, "target", connections, 1);
            gathered.offered(options.mode);
            for round in 0..=options.rounds {
                let seconds = self.schedule.target_round_seconds(round == 0);
                if self.skips(round, seconds, "target", connections) {
                    continue;
                }
                if self.over(seconds) {
                    break;
                }
                self.say(&format!("target · {connections} · round {round}"));
                let plan = self.plan(connections, round == 0);
                let measured = measure::round(options.tool, &target, &plan, tree.as_ref(), &others);
                self.take(measured, round == 0, &mut gathered);
                self.pass(seconds);
            }
            self.keep(gathered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ExternalTarget;

    fn resolve(url: &str, is_own: bool) -> Result<(String, String, String), String> {
        let target = ExternalTarget { url: url.to_owned(), is_own }.resolve()?;
        Ok((target.address.to_string(), target.host, target.path))
    }

    #[test]
    fn only_this_machine_is_loaded_unless_it_is_allowed() {
        let found = resolve("http://127.0.0.1:8080/a?b", false).unwrap();
        assert_eq!(found, ("127.0.0.1:8080".into(), "127.0.0.1:8080".into(), "/a?b".into()));
        let found = resolve("http://[::1]:81", false).unwrap();
        assert_eq!((found.0.as_str(), found.2.as_str()), ("[::1]:81", "/"));
        // TEST-NET-1 of RFC 5737 has no server.
        let refused = resolve("http://192.0.2.1/", false).unwrap_err();
        assert!(refused.contains("192.0.2.1:80 is not of this machine"), "{refused}");
        assert_eq!(resolve("http://192.0.2.1/", true).unwrap().0, "192.0.2.1:80");
    }

    #[test]
    fn what_is_not_a_url_is_refused() {
        for url in ["https://127.0.0.1/", "127.0.0.1:80", "http:///x", "http://a b/", "http://u@h/"]
        {
            assert!(resolve(url, true).is_err(), "{url}");
        }
    }
}
