//! `allow` and `deny`: decide by consumer, group, address, country or condition.
//!
//! Promises that an address is found in a list of any length in logarithmic time, and that a list
//! in a file is read again when the file changes, as part of a reload.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, Request};
use plugin::{
    Condition, CountryCode, Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext,
};
use settings::{Cidr, Node, OneOrMany, Reader, Schema, SchemaBuilder, Setting};
use telemetry::{CachePadded, Counter};

pub(crate) const ALLOW: FilterKind = FilterKind {
    name: "allow",
    schema: Allow::schema,
    read: |node, reader| {
        Some(plan("allow", Effect::Allow, Allow::read(node, reader)?.rules(node, reader)))
    },
};
pub(crate) const DENY: FilterKind = FilterKind {
    name: "deny",
    schema: Deny::schema,
    read: |node, reader| {
        Some(plan("deny", Effect::Deny, Deny::read(node, reader)?.rules(node, reader)))
    },
};

/// Declares a filter of these rules: the text of its documentation is all that differs.
macro_rules! access_filter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Setting)]
        struct $name {
            /// Names of authenticated consumers.
            #[setting(default = [], example = ["alice"])]
            consumers: OneOrMany<String>,
            /// Groups, one of which the authenticated consumer belongs to.
            #[setting(default = [], example = ["gold"])]
            groups: OneOrMany<String>,
            /// Client addresses and ranges; the client's address is the one that trusted proxies
            /// report.
            #[setting(default = [], example = ["10.0.0.0/8"])]
            ip: OneOrMany<Cidr>,
            /// Countries of the client's address, by the file that `geo` names: two letters (ISO
            /// 3166-1), or `unknown` for an address without a country.
            #[setting(default = [], example = ["DE", "AT"])]
            countries: OneOrMany<CountryCode>,
            /// Files with an address or a range per line; `#` begins a comment. A changed file is
            /// read again.
            #[setting(default = [])]
            ip_files: OneOrMany<AddressFile>,
            /// Conditions, one of which holds: for user agents, referers, claims and other
            /// properties.
            #[setting(default = [], example = [{ "header": "user-agent", "contains": "curl/" }])]
            when: OneOrMany<Condition>,
        }

        impl $name {
            fn rules(self, node: &Node, reader: &mut Reader<'_>) -> Rules {
                let listed = self.ip_files.0.into_iter().flat_map(|file| file.0);
                let addresses: Vec<Cidr> = self.ip.0.into_iter().chain(listed).collect();
                if node.map().is_none_or(<[_]>::is_empty) {
                    reader
                        .error(node.span, "without rules the filter applies to no request")
                        .help("name consumers, groups, ip, ip_files, countries or when");
                }
                Rules {
                    consumers: self.consumers.0.into_iter().collect(),
                    groups: self.groups.0.into_iter().collect(),
                    countries: self.countries.0.into_iter().map(CountryCode::into_text).collect(),
                    ranges: addresses.len(),
                    addresses: AddressSet::new(&addresses),
                    when: self.when.0,
                }
            }
        }
    };
}

access_filter! {
    /// Allows only requests that one of its rules applies to.
    ///
    /// Other requests get 403. A filter with rules on consumers or groups belongs after the one
    /// that authenticates.
    Allow
}

access_filter! {
    /// Rejects requests that one of its rules applies to.
    ///
    /// They get 403. A filter with rules on consumers or groups belongs after the one that
    /// authenticates.
    Deny
}

/// A file of addresses.
#[derive(Clone, Debug, PartialEq)]
struct AddressFile(Vec<Cidr>);

impl Setting for AddressFile {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("path")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let path = String::read(node, reader)?;
        let content = reader.read_file(node.span, Path::new(&path))?;
        let mut ranges = Vec::new();
        for (at, line) in String::from_utf8_lossy(&content).lines().enumerate() {
            let text = line.split('#').next().unwrap_or_default().trim();
            match text.parse() {
                Ok(range) => ranges.push(range),
                Err(_) if text.is_empty() => {}
                Err(why) => {
                    let line = at + 1;
                    reader.error(node.span, format!("line {line} of {path}: {text:?} {why}"));
                    return None;
                }
            }
        }
        Some(AddressFile(ranges))
    }
}

/// What a filter does with requests that a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Allow,
    Deny,
}

struct Rules {
    consumers: HashSet<String, foldhash::fast::RandomState>,
    groups: HashSet<String, foldhash::fast::RandomState>,
    countries: HashSet<String, foldhash::fast::RandomState>,
    /// The number of configured ranges.
    ranges: usize,
    addresses: AddressSet,
    when: Vec<Condition>,
}

impl Rules {
    fn apply(&self, request: &Request) -> bool {
        self.addresses.contains(request.client_ip)
            || request.consumer.as_ref().is_some_and(|consumer| {
                self.consumers.contains(&*consumer.name)
                    || consumer.groups.iter().any(|group| self.groups.contains(&**group))
            })
            || (!self.countries.is_empty()
                && self.countries.contains(plugin::variables::country(request)))
            || self.when.iter().any(|condition| condition.holds(request))
    }
}

/// Addresses as sorted ranges that neither meet nor overlap, of each version of IP.
#[derive(Default)]
struct AddressSet {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl AddressSet {
    fn new(ranges: &[Cidr]) -> AddressSet {
        let mut set = AddressSet::default();
        for range in ranges {
            match (range.net().network(), range.net().broadcast()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => set.v4.push((first.into(), last.into())),
                (IpAddr::V6(first), IpAddr::V6(last)) => set.v6.push((first.into(), last.into())),
                _ => unreachable!("both ends of a range have one version"),
            }
        }
        merge(&mut set.v4);
        merge(&mut set.v6);
        set
    }

    /// An IPv4 address seen through an IPv6 socket counts as IPv4.
    fn contains(&self, ip: IpAddr) -> bool {
        match ip.to_canonical() {
            IpAddr::V4(ip) => is_in(&self.v4, ip.into()),
            IpAddr::V6(ip) => is_in(&self.v6, ip.into()),
        }
    }
}

fn merge<N: Copy + Ord>(ranges: &mut Vec<(N, N)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, merged| {
        let overlaps = next.0 <= merged.1;
        if overlaps {
            merged.1 = merged.1.max(next.1);
        }
        overlaps
    });
}

fn is_in<N: Copy + Ord>(ranges: &[(N, N)], address: N) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    after.checked_sub(1).is_some_and(|at| address <= ranges[at].1)
}

struct AccessPlan {
    name: &'static str,
    effect: Effect,
    rules: Arc<Rules>,
}

fn plan(name: &'static str, effect: Effect, rules: Rules) -> Arc<dyn FilterPlan> {
    Arc::new(AccessPlan { name, effect, rules: Arc::new(rules) })
}

impl FilterPlan for AccessPlan {
    fn name(&self) -> &'static str {
        self.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(AccessFilter {
            name: self.name,
            effect: self.effect,
            rules: self.rules.clone(),
            rejected: worker.policy_rejections(self.name, "access"),
        }))
    }

    fn needs_authentication(&self) -> bool {
        let Rules { consumers, groups, when, .. } = &*self.rules;
        !consumers.is_empty()
            || !groups.is_empty()
            || when.iter().any(Condition::needs_authentication)
    }

    fn describe(&self) -> String {
        let Rules { consumers, groups, countries, ranges, when, .. } = &*self.rules;
        let counted = [
            (consumers.len(), "consumer"),
            (groups.len(), "group"),
            (*ranges, "range"),
            (countries.len(), "country"),
            (when.len(), "condition"),
        ];
        let written = counted.iter().filter(|(count, _)| *count > 0);
        let written = written.map(|(count, what)| match (*count, what.strip_suffix('y')) {
            (1, _) => format!("1 {what}"),
            (_, Some(stem)) => format!("{count} {stem}ies"),
            (_, None) => format!("{count} {what}s"),
        });
        written.collect::<Vec<_>>().join(", ")
    }
}

struct AccessFilter {
    name: &'static str,
    effect: Effect,
    rules: Arc<Rules>,
    rejected: Arc<CachePadded<Counter>>,
}

impl Filter for AccessFilter {
    fn name(&self) -> &'static str {
        self.name
    }

    /// A condition may be an expression that searches a long value, and a country is looked up in
    /// a large file.
    fn is_instant(&self) -> bool {
        self.rules.when.is_empty() && self.rules.countries.is_empty()
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if self.rules.apply(request) == (self.effect == Effect::Allow) {
            return Step::Continue.into();
        }
        self.rejected.inc();
        let why = match self.effect {
            Effect::Allow => "no rule of allow applies",
            Effect::Deny => "a rule of deny applies",
        };
        Step::Fail(Fault::new(FaultKind::Forbidden, why)).into()
    }
}

#[cfg(test)]
mod tests {
    use message::Consumer;
    use settings::node;

    use super::*;
    use plugin::testing::{context, errors, filter, filter_in, get, passed, plan, rendered};

    #[test]
    fn the_declarations_are_valid() {
        settings::verify::<Allow>().unwrap();
        settings::verify::<Deny>().unwrap();
    }

    /// A request of this consumer from this address.
    fn request(consumer: &str, group: &str, ip: &str) -> Request {
        let mut request = get("/", &[("user-agent", "curl/8")]);
        request.client_ip = ip.parse().unwrap();
        if !consumer.is_empty() {
            request.consumer = Some(Rc::new(Consumer {
                name: consumer.into(),
                groups: vec![group.into()],
                ..Consumer::default()
            }));
        }
        request
    }

    #[test]
    fn allow_and_deny_are_opposites() {
        for (rules, mut request, applies) in [
            (node!({ "consumers": "ann" }), request("ann", "g", "::1"), true),
            (node!({ "consumers": ["bob"] }), request("ann", "bob", "::1"), false),
            (node!({ "consumers": "ann" }), request("", "", "::1"), false),
            (node!({ "groups": ["x", "g"] }), request("ann", "g", "::1"), true),
            (node!({ "groups": "ann" }), request("ann", "g", "::1"), false),
            (node!({ "ip": "10.0.0.0/8" }), request("", "", "10.1.2.3"), true),
            (node!({ "ip": "10.0.0.0/8" }), request("", "", "::ffff:10.1.2.3"), true),
            (node!({ "ip": "::ffff:10.0.0.0/104" }), request("", "", "10.1.2.3"), true),
            (node!({ "countries": "unknown" }), request("", "", "::1"), true),
            (node!({ "countries": ["DE", "at"] }), request("", "", "::1"), false),
            (node!({ "ip": "::/0" }), request("", "", "10.1.2.3"), false),
            (
                node!({ "when": { "header": "user-agent", "prefix": "curl/" } }),
                request("", "", "::1"),
                true,
            ),
            (
                node!({ "consumers": "bob", "when": [{ "group": "h" }, { "consumer": "ann" }] }),
                request("ann", "g", "::1"),
                true,
            ),
        ] {
            let status = |kind: &FilterKind, request: &mut Request| {
                let step = filter(kind, &rules);
                passed(step.on_request(request)).map_err(|fault| rendered(&fault).status)
            };
            let (fits, other) = (Ok(()), Err(403));
            let expected = if applies { (fits, other) } else { (other, fits) };
            let got = (status(&ALLOW, &mut request), status(&DENY, &mut request));
            assert_eq!(got, expected, "{rules:?}");
        }
    }

    #[test]
    fn ranges_of_a_file_are_merged_with_those_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.txt");
        let listed = "# a list\n10.0.0.0/8 # ours\n\n10.1.0.0/16\n192.168.1.7\n2001:db8::/32\n";
        std::fs::write(&path, listed).unwrap();
        let rules = node!({ "ip": ["172.16.0.1"], "ip_files": (path.to_str().unwrap()) });
        assert_eq!(plan(&DENY, &rules).unwrap().describe(), "5 ranges");
        let deny = filter(&DENY, &rules);
        for (ip, denied) in [
            ("10.0.0.0", true),
            ("10.255.255.255", true),
            ("11.0.0.0", false),
            ("9.255.255.255", false),
            ("172.16.0.1", true),
            ("192.168.1.6", false),
            ("192.168.1.7", true),
            ("192.168.1.8", false),
            ("2001:db8::1", true),
            ("2001:db9::", false),
            ("0.0.0.0", false),
        ] {
            let step = passed(deny.on_request(&mut request("", "", ip)));
            assert_eq!(step.is_err(), denied, "{ip}");
        }
        std::fs::write(&path, "10.0.0.0/8\n10.1.0.0/8\n").unwrap();
        let report = errors(&DENY, &rules);
        assert!(report.contains("line 2 of") && report.contains("10.1.0.0/8"), "{report}");
    }

    #[test]
    fn rejections_are_counted_and_rules_are_required() {
        let context = context();
        let deny = filter_in(&DENY, &node!({ "ip": "::1" }), &context);
        let _ = deny.on_request(&mut request("", "", "::1"));
        let _ = deny.on_request(&mut request("", "", "::2"));
        assert_eq!(context.policy_rejections("deny", "access").get(), 1);
        assert!(errors(&ALLOW, &node!({})).contains("without rules"));
    }
}
