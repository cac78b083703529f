//! A quota of an amount that is known only after a request, such as the tokens of AI models: the
//! request is checked first and its amount is added later.
//!
//! Shares files, periods and the register with the filter `quota`. Promises that an added amount is
//! never lost, also above the limit: then requests are rejected until the period ends.

use std::sync::Arc;

use message::Request;
use plugin::{ConsumerLimit, WorkerContext};
use settings::{FilePath, Key, Node, Reader, Setting};

use super::period::{Calendar, Period, Zone};
use super::registry::{Quotas, Registered};
use super::shared::QuotaPeriod;
use super::stored_table::{StoredTable, TableSettings, check_name};
use super::table::Fingerprint;
use super::{check_shared, check_time_zone};
use crate::rate_limit::check_consumer_key;
use crate::request_key::RequestKey;

/// Bits of an IPv6 address that count if it is the key.
const IPV6_PREFIX: u8 = 64;

/// A number of tokens that each key may use in a period.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct AmountQuotaSettings {
    /// The name: that of the file, in `limits.quotas` of consumers and in the admin API. Letters,
    /// digits, `-` and `_`. Quotas of the same name count together.
    #[setting(example = "tokens-per-day")]
    pub name: String,
    /// How many tokens a key may use in a period.
    #[setting(example = 1000000)]
    pub limit: u32,
    /// How long a period is: `day`, `week` (from Monday) and `month` begin at midnight; a time such
    /// as `1m` begins with the first request of a key.
    #[setting(default = "day", example = "1m", example = "month")]
    period: Period,
    /// The time zone of midnight, by its IANA name.
    #[setting(default = "UTC", example = "Europe/Berlin")]
    time_zone: Zone,
    /// The key by which tokens are counted. Requests for which it is empty count as one.
    #[setting(default = "consumer", example = "client_ip", example = "{groups}")]
    key: Key,
    /// Uses the limit of this name in `limits.quotas` of the request's consumer, if its entry has
    /// one; `limit` is for all others. The key contains the consumer.
    #[setting(default = false)]
    consumer_limits: bool,
    /// Counts together with other servers, as in the filter `quota`.
    #[setting(default = false)]
    shared: bool,
    /// How many keys are stored, as in the filter `quota`.
    #[setting(default = 65536, range = 1..=1048576)]
    entries: u32,
    /// The directory of the file `NAME.quota`, as in the filter `quota`.
    #[setting(example = "/var/lib/tidegate/quotas")]
    directory: Option<FilePath>,
}

fn check(settings: &AmountQuotaSettings, node: &Node, reader: &mut Reader<'_>) {
    check_name(&settings.name, node, reader);
    let properties = [
        "tokens".to_owned(),
        settings.period.to_string(),
        settings.time_zone.to_string(),
        settings.key.to_string(),
        IPV6_PREFIX.to_string(),
        settings.entries.to_string(),
        format!("{:?}", settings.directory),
        settings.shared.to_string(),
    ];
    super::shares_name(&settings.name, properties, node, reader);
    if settings.consumer_limits {
        check_consumer_key(&settings.key, node, reader);
    }
    if settings.shared {
        check_shared(settings.period, node, reader);
    }
    check_time_zone(settings.period, node, reader);
}

impl AmountQuotaSettings {
    /// The limit that it takes from the entries of consumers.
    pub fn consumer_limit(&self) -> Option<ConsumerLimit> {
        self.consumer_limits.then(|| ConsumerLimit::Quota(self.name.clone()))
    }
}

/// A quota on one worker.
pub struct AmountQuota {
    settings: AmountQuotaSettings,
    table: Arc<StoredTable>,
    calendar: Calendar,
    key: RequestKey,
    /// The register lives as long as a quota does.
    _quotas: Arc<Quotas>,
}

/// The key of a request, under which its amount is added later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountKey(Fingerprint);

/// How much of a quota a key has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountUse {
    pub limit: u32,
    pub used: u32,
    /// Seconds until the period ends, at least 1.
    pub ends_in_s: u32,
    pub key: AmountKey,
}

impl AmountUse {
    pub fn remaining(&self) -> u32 {
        self.limit.saturating_sub(self.used)
    }
}

impl AmountQuota {
    pub fn new(settings: &AmountQuotaSettings, worker: &WorkerContext) -> AmountQuota {
        let AmountQuotaSettings { name, limit, period, time_zone, key, .. } = settings;
        let shared = QuotaPeriod { period: *period, zone: time_zone };
        let table = TableSettings {
            directory: settings.directory.as_ref(),
            name,
            entries: settings.entries,
            shared: settings.shared.then_some(shared),
        };
        let table = StoredTable::open(&table, worker);
        let quotas = worker.shared.get((), Quotas::default);
        let registered = Registered {
            table: Arc::downgrade(&table),
            limit: *limit,
            period: *period,
            zone: time_zone.clone(),
            key: key.clone(),
            ipv6_prefix: IPV6_PREFIX,
        };
        quotas.register(name, registered);
        AmountQuota {
            calendar: Calendar::new(*period, time_zone),
            key: RequestKey::new(key, IPV6_PREFIX),
            settings: settings.clone(),
            table,
            _quotas: quotas,
        }
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// What the key of a request has used; `None` while the file of the quota cannot be used.
    pub fn used(&self, request: &Request) -> Option<AmountUse> {
        let now_s = net::clock::wall_secs();
        let key = self.key.with(request, Fingerprint::of);
        let (used, end_s) = self.table.get()?.used(key, self.calendar.at(now_s));
        let ends_in_s = u32::try_from(end_s.saturating_sub(now_s)).unwrap_or(u32::MAX).max(1);
        let limit = self.own_limit(request).unwrap_or(self.settings.limit);
        Some(AmountUse { limit, used, ends_in_s, key: AmountKey(key) })
    }

    /// Adds an amount, also above the limit.
    pub fn add(&self, key: AmountKey, amount: u32) {
        if let Some(table) = self.table.get() {
            table.add(key.0, self.calendar.at(net::clock::wall_secs()), amount);
        }
    }

    /// The limit of this name in the entry of the request's consumer.
    fn own_limit(&self, request: &Request) -> Option<u32> {
        let limits = request.consumer.as_ref()?.limits.as_ref();
        limits?.quotas.get(&self.settings.name).copied().filter(|_| self.settings.consumer_limits)
    }
}

#[cfg(test)]
mod tests {
    use super::{AmountQuota, AmountQuotaSettings};
    use message::Consumer;
    use plugin::WorkerContext;
    use plugin::testing::{context, get};
    use settings::node;
    use std::rc::Rc;

    fn quota(directory: &tempfile::TempDir, worker: &WorkerContext) -> AmountQuota {
        let directory = directory.path().to_str().unwrap();
        let settings: AmountQuotaSettings = settings::read(&node!({
            "name": "tokens", "limit": 100, "consumer_limits": true, "directory": directory
        }))
        .unwrap();
        AmountQuota::new(&settings, worker)
    }

    fn from(consumer: &str, own: Option<u32>) -> message::Request {
        let mut request = get("/", &[]);
        let limits = own.map(|own| {
            let limits = message::ConsumerLimits {
                rate: None,
                burst: None,
                quotas: [("tokens".to_owned(), own)].into(),
            };
            Box::new(limits)
        });
        let consumer = Consumer { name: consumer.into(), limits, ..Consumer::default() };
        request.consumer = Some(Rc::new(consumer));
        request
    }

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<AmountQuotaSettings>().unwrap();
    }

    #[test]
    fn amounts_add_up_above_the_limit_and_survive() {
        let (directory, worker) = (tempfile::tempdir().unwrap(), context());
        let tokens = quota(&directory, &worker);
        let before = tokens.used(&from("ann", None)).unwrap();
        assert_eq!((before.used, before.remaining()), (0, 100));
        tokens.add(before.key, 70);
        tokens.add(before.key, 70);
        let after = tokens.used(&from("ann", None)).unwrap();
        assert_eq!((after.used, after.remaining(), after.limit), (140, 0, 100));
        tokens.add(before.key, u32::MAX);
        assert_eq!(tokens.used(&from("ann", None)).unwrap().used, u32::MAX);
        assert_eq!(tokens.used(&from("bob", None)).unwrap().used, 0);
        let own = tokens.used(&from("ann", Some(7))).unwrap();
        assert_eq!((own.limit, own.used), (7, u32::MAX));
        drop((tokens, worker));
        // A new process.
        assert_eq!(quota(&directory, &context()).used(&from("ann", None)).unwrap().used, u32::MAX);
    }
}
