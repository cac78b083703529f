//! Sends batches of commands, one at a time.

use std::cell::{Cell, RefCell};

use redis::{RedisClient, RedisCommand, RedisError, Reply};

use super::scripts::{Scripts, malformed};
use super::{QuotaReport, QuotaTotals, RateReport, RateTotals};

/// The connection of the control thread to Redis.
pub(crate) struct BatchSender {
    /// `None` while a batch is in flight.
    client: Cell<Option<RedisClient>>,
    scripts: Scripts,
    prefix: String,
    /// The last error of a key whose batch was sent.
    failure: RefCell<Option<String>>,
}

impl BatchSender {
    pub(super) fn new(client: RedisClient, scripts: Scripts, prefix: &str) -> BatchSender {
        let prefix = prefix.to_owned();
        let (client, failure) = (Cell::new(Some(client)), RefCell::default());
        BatchSender { client, scripts, prefix, failure }
    }

    /// What every key begins with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Reports what rate limits have used, for each key. The error of a single key is `None`: it
    /// is sent again with the next batch.
    pub(crate) async fn rates(
        &self,
        reports: impl Iterator<Item = (Vec<u8>, RateReport)>,
    ) -> std::io::Result<Vec<Option<RateTotals>>> {
        let command = |(key, report): (Vec<u8>, RateReport)| self.scripts.rate(&key, report);
        let pairs = self.pairs(reports.map(command).collect()).await?;
        let totals = |(debt_us, total): (i64, i64)| RateTotals {
            debt_us,
            total_us: u64::try_from(total).unwrap_or(0),
        };
        Ok(pairs.into_iter().map(|pair| pair.map(totals)).collect())
    }

    /// Reports what quotas have used, for each key, as `rates` does.
    pub(crate) async fn quotas(
        &self,
        server: &str,
        reports: impl Iterator<Item = (Vec<u8>, QuotaReport)>,
    ) -> std::io::Result<Vec<Option<QuotaTotals>>> {
        let command =
            |(key, report): (Vec<u8>, QuotaReport)| self.scripts.quota(&key, server, report);
        let pairs = self.pairs(reports.map(command).collect()).await?;
        let count = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
        let totals = |(used, own)| QuotaTotals { used: count(used), own: count(own) };
        Ok(pairs.into_iter().map(|pair| pair.map(totals)).collect())
    }

    /// Reports that this server is there, or leaves; returns how many there are.
    pub(super) async fn servers(&self, server: &str, is_leaving: bool) -> std::io::Result<u32> {
        let command = self.scripts.servers(&self.prefix, server, is_leaving);
        let pairs = self.pairs(vec![command]).await?;
        let count = pairs.first().and_then(|pair| u32::try_from(pair.as_ref()?.0).ok());
        count.ok_or_else(malformed)
    }

    /// Notes an error that does not concern all keys.
    pub(super) fn note(&self, error: &std::io::Error) {
        self.failure.replace(Some(error.to_string()));
    }

    /// Why a key could not be settled since the last call.
    pub(super) fn take_failure(&self) -> Option<String> {
        self.failure.take()
    }

    /// The two integers that a script returns, for each command. An error if all of them failed.
    async fn pairs(&self, commands: Vec<RedisCommand>) -> std::io::Result<Vec<Option<(i64, i64)>>> {
        let Some(mut client) = self.client.take() else {
            return Err(std::io::ErrorKind::WouldBlock.into());
        };
        let results = client.run(&commands).await;
        self.client.set(Some(client));
        let mut failed = 0;
        let pairs: Vec<Option<(i64, i64)>> = results
            .into_iter()
            .map(|result| {
                let pair = integers(result);
                failed += usize::from(pair.is_err());
                pair.map_err(|error| self.failure.replace(Some(error.to_string()))).ok()
            })
            .collect();
        match failed == commands.len() && failed > 0 {
            true => Err(self.take_failure().map_or_else(malformed, std::io::Error::other)),
            false => Ok(pairs),
        }
    }
}

fn integers(result: Result<Reply, RedisError>) -> std::io::Result<(i64, i64)> {
    match result? {
        Reply::List(list) => match &list[..] {
            [Reply::Integer(first), Reply::Integer(second)] => Ok((*first, *second)),
            _ => Err(malformed()),
        },
        _ => Err(malformed()),
    }
}
