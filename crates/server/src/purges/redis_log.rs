//! The log of purges in Redis or Valkey: a stream.

use std::sync::Arc;
use std::time::Duration;

use cache::shared_purges::{LogEntry, LogPosition, LogRead, NodeReport, PurgeEntry, remembered};
use net::clock;
use net::timer;
use redis::{RedisClient, RedisCommand, RedisPlan, Reply};
use tokio::sync::Mutex;

use super::applier::Applier;
use super::limits::{LOG_AGE, LOG_ENTRIES, LOG_EXPIRES, PAGE};
use super::redis_scripts::PurgeScripts;
use super::{Published, ServerList, new_mark};

/// A server that was not heard of for so long is not waited for. Each polls more often.
const LIVE_MS: u64 = 5_000;
/// The longest wait for the next entry; at most half of the time-out of a reply.
const WAIT: Duration = Duration::from_millis(500);
/// The first and the longest pause after failures.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Attempts to write a purge: an idle connection may have been closed.
const ATTEMPTS: usize = 2;

pub(super) struct RedisLog {
    plan: Arc<RedisPlan>,
    scripts: PurgeScripts,
    node: String,
    /// This process, among those that have had the name.
    process: String,
    alone: Duration,
    /// The connection of purges and of waits for them.
    client: Mutex<RedisClient>,
}

impl RedisLog {
    pub(super) fn new(
        plan: &Arc<RedisPlan>,
        node: String,
        process: String,
        alone: Duration,
    ) -> RedisLog {
        let scripts = PurgeScripts::new(plan.prefix());
        let client = Mutex::new(RedisClient::new(plan.clone(), scripts.all()));
        RedisLog { plan: plan.clone(), scripts, node, process, alone, client }
    }

    pub(super) fn describe(&self) -> String {
        format!("Redis at {}", self.plan.describe())
    }

    /// Where the keys of the log are.
    pub(super) fn place(&self) -> (String, u32, &str) {
        (self.plan.describe(), self.plan.database(), self.plan.prefix())
    }

    pub(super) fn node(&self) -> &str {
        &self.node
    }

    /// Follows the log as long as it is polled.
    pub(super) async fn follow(&self, applier: &Applier) {
        let mut client = RedisClient::new(self.plan.clone(), self.scripts.all());
        let wait = WAIT.min(self.plan.timeout() / 2);
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(1).max(1);
        let mut failures: u32 = 0;
        loop {
            applier.join().await;
            match self.poll(&mut client, applier).await {
                Ok(true) => {}
                Ok(false) => {
                    failures = 0;
                    applier.report(None);
                    let number = applier.position().map_or(0, |position| position.number);
                    // What ends the wait is seen by the next poll.
                    let waited = client.run(&[self.scripts.wait(number, wait_ms)]).await;
                    if waited.iter().any(Result::is_err) {
                        timer::sleep(PAUSE).await;
                    }
                }
                Err(why) => {
                    applier.report(Some(why));
                    timer::sleep(timer::pause(PAUSE, PAUSE_MAX, failures)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Reports this server and applies what follows its position. Returns whether there was
    /// anything: then the next poll reports that it was applied, and there may be more.
    async fn poll(&self, client: &mut RedisClient, applier: &Applier) -> Result<bool, String> {
        let sent_ms = clock::now().as_ms();
        let position = applier.position();
        let known = position.as_ref().and_then(|position| {
            let log = position.log.strip_prefix(&self.log_name(""))?;
            Some((log, position.number.to_string(), position.mark.as_str()))
        });
        let (log, number, mark) = known.unwrap_or(("", "0".to_owned(), ""));
        let command = self.scripts.poll(&[
            &self.node,
            &self.process,
            log,
            &number,
            mark,
            &PAGE.to_string(),
            &new_mark(),
            &LIVE_MS.to_string(),
            &LOG_EXPIRES.as_millis().to_string(),
        ]);
        let reply = run(client, command).await?;
        let read = self.read(&reply, position.as_ref());
        let read = read.ok_or_else(malformed)??;
        let has_news = read.has_gap || !read.entries.is_empty();
        applier.registered(sent_ms);
        applier.take(read).await;
        Ok(has_news)
    }

    fn log_name(&self, log: &str) -> String {
        format!("redis:{}:{log}", self.plan.prefix())
    }

    /// Reads the reply of the script; `None` if it is not one of it.
    fn read(&self, reply: &Reply, from: Option<&LogPosition>) -> Option<Result<LogRead, String>> {
        let [Reply::Integer(status), log, Reply::List(entries)] = list(reply)? else { return None };
        if *status == 2 {
            let why = format!(
                "another server is called \"{}\": set `purges.node` of one of them",
                self.node
            );
            return Some(Err(why));
        }
        let has_gap = *status != 0;
        let log = self.log_name(text(log)?);
        let mut read = Vec::with_capacity(entries.len());
        let mut position = from.filter(|_| !has_gap).cloned();
        for entry in entries {
            let [id, Reply::List(fields)] = list(entry)? else { return None };
            let [_, mark, _, purge] = &fields[..] else { return None };
            let number: u64 = text(id)?.split('-').next()?.parse().ok()?;
            let mark = text(mark)?.to_owned();
            position = Some(LogPosition { log: log.clone(), number, mark: mark.clone() });
            if !has_gap {
                let purge = PurgeEntry::decode(text(purge)?.as_bytes());
                read.push(LogEntry { number, mark, purge });
            }
        }
        let (position, has_more) = (position?, !has_gap && read.len() >= PAGE);
        Some(Ok(LogRead { entries: read, last: position.number, position, has_gap, has_more }))
    }

    /// Writes an entry and returns its number.
    pub(super) async fn publish(&self, mark: &str, entry: &str) -> Result<u64, String> {
        let command = self.scripts.publish(&[
            mark,
            entry,
            &LOG_ENTRIES.to_string(),
            &LOG_AGE.as_micros().to_string(),
            &LOG_EXPIRES.as_millis().to_string(),
        ]);
        let reply = self.run(command).await?;
        text(&reply).and_then(|number| number.parse().ok()).ok_or_else(malformed)
    }

    /// The servers that follow the log.
    pub(super) async fn servers(&self, purge: &Published) -> Result<ServerList, String> {
        let number = purge.number.to_string();
        let forgets = remembered(self.alone).as_millis().to_string();
        let reply = self.run(self.scripts.servers(&[&number, &purge.mark, &forgets])).await?;
        server_list(&reply).ok_or_else(malformed)
    }

    /// Removes this server from those that are waited for: it ends.
    pub(super) async fn leave(&self) {
        // The others forget it otherwise.
        let _ = self.run(self.scripts.leave(&[&self.node, &self.process])).await;
    }

    async fn run(&self, command: RedisCommand) -> Result<Reply, String> {
        let mut client = self.client.lock().await;
        let mut attempt = 1;
        loop {
            match run(&mut client, command.clone()).await {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }
}

async fn run(client: &mut RedisClient, command: RedisCommand) -> Result<Reply, String> {
    let replies = client.run(&[command]).await;
    let reply = replies.into_iter().next().ok_or_else(malformed)?;
    reply.map_err(|error| error.to_string())
}

fn malformed() -> String {
    "a malformed reply of a script".to_owned()
}

fn server_list(reply: &Reply) -> Option<ServerList> {
    let [Reply::Integer(has_entry), Reply::Integer(lost_ms), Reply::List(servers)] = list(reply)?
    else {
        return None;
    };
    let mut nodes = Vec::with_capacity(servers.len());
    for server in servers {
        let [name, applied, Reply::Integer(age_ms)] = list(server)? else { return None };
        nodes.push(NodeReport {
            name: text(name)?.to_owned(),
            applied: text(applied)?.parse().ok()?,
            is_live: u64::try_from(*age_ms).unwrap_or(0) < LIVE_MS,
        });
    }
    let lost = u64::try_from(*lost_ms).ok().map(Duration::from_millis);
    Some(ServerList { has_entry: *has_entry == 1, lost, nodes })
}

fn list(reply: &Reply) -> Option<&[Reply]> {
    match reply {
        Reply::List(items) => Some(items),
        _ => None,
    }
}

fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Bytes(bytes) | Reply::Text(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use redis::Reply;

    use super::server_list;

    fn text(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec().into())
    }

    #[test]
    fn a_list_of_servers_is_read() {
        let server =
            |name, applied, age| Reply::List(vec![text(name), text(applied), Reply::Integer(age)]);
        let servers = vec![server("a", "7", 10), server("b", "1700000000000001", 6000)];
        let reply = |lost| {
            Reply::List(vec![Reply::Integer(1), Reply::Integer(lost), Reply::List(servers.clone())])
        };
        let list = server_list(&reply(-1)).unwrap();
        assert!(list.has_entry && list.lost.is_none());
        assert!(list.nodes[0].is_live && !list.nodes[1].is_live);
        assert_eq!(list.nodes[1].applied, 1_700_000_000_000_001);
        assert_eq!(server_list(&reply(1500)).unwrap().lost.unwrap().as_millis(), 1500);
        for broken in [Reply::Nothing, Reply::List(vec![text("1")]), text("")] {
            assert!(server_list(&broken).is_none());
        }
    }
}
