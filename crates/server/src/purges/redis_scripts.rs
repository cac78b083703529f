//! The scripts that Redis runs for the log of purges.
//!
//! Each takes two keys of one slot: the stream of entries, and a hash with the servers that follow
//! it. A server reports with the script that reads, so that the hash never says more than what the
//! stream had: a replica that becomes the primary has both at one moment of the past.

use redis::{RedisCommand, Script};

/// Appends an entry (`ARGV[2]`) with a mark (`ARGV[1]`) and drops the oldest: those beyond a count
/// (`ARGV[3]`) and those older than a time in µs (`ARGV[4]`). The newest stays, because servers
/// find their position by it. Returns the number of the entry, which is the time in µs, or more.
const PUBLISH: &str = "\
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local tail = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local number = now
if tail then number = math.max(now, tonumber(string.match(tail[1], '^%d+')) + 1) end
number = string.format('%.0f', number)
redis.call('XADD', KEYS[1], number .. '-0', 'm', ARGV[1], 'e', ARGV[2])
redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[3])
redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f', now - ARGV[4]))
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return number";

/// Puts a server (`ARGV[1]`, a process `ARGV[2]`) on the list with its position (log `ARGV[3]`,
/// number `ARGV[4]`, mark `ARGV[5]`), unless a process of the same name was heard of within
/// `ARGV[8]` ms, and returns the entries after it, at most `ARGV[6]`. Without a position that the
/// stream has, it returns the last entry, which is made if there is none; `ARGV[7]` is the mark of
/// that, and the name of the log if it is a new one. That another log was lost is noted.
const POLL: &str = "\
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local own = redis.call('HGET', KEYS[2], ARGV[1])
if own then
  local at, process = string.match(own, '^%d+ (%d+) (.*)$')
  if process ~= ARGV[2] and now - at < tonumber(ARGV[8]) then return {2, '', {}} end
end
local log = redis.call('HGET', KEYS[2], ' log')
if not log then
  log = ARGV[7]
  redis.call('HSET', KEYS[2], ' log', log)
end
if ARGV[3] ~= '' and ARGV[3] ~= log then redis.call('HSETNX', KEYS[2], ' lost', now) end
local at, has = ARGV[4] .. '-0', false
if ARGV[3] == log then
  local found = redis.call('XRANGE', KEYS[1], at, at)[1]
  has = found and found[2][2] == ARGV[5]
end
local entries, number
if has then
  entries, number = redis.call('XRANGE', KEYS[1], '(' .. at, '+', 'COUNT', ARGV[6]), ARGV[4]
else
  if redis.call('EXISTS', KEYS[1]) == 0 then
    local first = string.format('%.0f', t[1] * 1000000 + t[2])
    redis.call('XADD', KEYS[1], first .. '-0', 'm', ARGV[7], 'e', '')
  end
  entries, number = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1), '0'
end
redis.call('HSET', KEYS[2], ARGV[1], number .. ' ' .. now .. ' ' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[9])
redis.call('PEXPIRE', KEYS[2], ARGV[9])
return {has and 0 or 1, log, entries}";

/// Returns whether the stream has an entry (number `ARGV[1]`, mark `ARGV[2]`), since how many ms
/// servers may be missing because a log was lost (-1: none are), and the servers: name, number, ms
/// since they were heard of. Those not heard of for `ARGV[3]` ms are removed.
const SERVERS: &str = "\
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local at = ARGV[1] .. '-0'
local found = redis.call('XRANGE', KEYS[1], at, at)[1]
local has, lost, servers = 0, -1, {}
if found and found[2][2] == ARGV[2] then has = 1 end
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local number, at = string.match(all[i + 1], '^(%d+) (%d+) ')
  if number then
    local age = now - at
    if age > tonumber(ARGV[3]) then
      redis.call('HDEL', KEYS[2], all[i])
    else
      servers[#servers + 1] = {all[i], number, age}
    end
  elseif all[i] == ' lost' then
    lost = now - all[i + 1]
    if lost > tonumber(ARGV[3]) then
      redis.call('HDEL', KEYS[2], ' lost')
      lost = -1
    end
  end
end
return {has, lost, servers}";

/// Removes a server that ends, unless another process has its name by now.
const LEAVE: &str = "\
local own = redis.call('HGET', KEYS[2], ARGV[1])
if own and string.match(own, '^%d+ %d+ (.*)$') == ARGV[2] then
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return 0";

/// The scripts, ready to be called on the keys of a prefix.
pub(super) struct PurgeScripts {
    publish: Script,
    poll: Script,
    servers: Script,
    leave: Script,
    stream: String,
    nodes: String,
}

impl PurgeScripts {
    pub(super) fn new(prefix: &str) -> PurgeScripts {
        PurgeScripts {
            publish: Script::new(PUBLISH),
            poll: Script::new(POLL),
            servers: Script::new(SERVERS),
            leave: Script::new(LEAVE),
            // One slot of a Cluster has both.
            stream: format!("{prefix}:{{purges}}"),
            nodes: format!("{prefix}:{{purges}}:servers"),
        }
    }

    pub(super) fn all(&self) -> Vec<Script> {
        [&self.publish, &self.poll, &self.servers, &self.leave].map(Script::clone).to_vec()
    }

    fn call(&self, script: &Script, arguments: &[&str]) -> RedisCommand {
        let keys = [self.stream.as_bytes(), self.nodes.as_bytes()];
        let arguments: Vec<&[u8]> = arguments.iter().map(|word| word.as_bytes()).collect();
        RedisCommand::script_of(script, &keys, &arguments)
    }

    pub(super) fn publish(&self, arguments: &[&str; 5]) -> RedisCommand {
        self.call(&self.publish, arguments)
    }

    pub(super) fn poll(&self, arguments: &[&str; 9]) -> RedisCommand {
        self.call(&self.poll, arguments)
    }

    pub(super) fn servers(&self, arguments: &[&str; 3]) -> RedisCommand {
        self.call(&self.servers, arguments)
    }

    pub(super) fn leave(&self, arguments: &[&str; 2]) -> RedisCommand {
        self.call(&self.leave, arguments)
    }

    /// Waits for an entry after a number, for at most so many ms.
    pub(super) fn wait(&self, number: u64, wait_ms: u64) -> RedisCommand {
        let (wait, after) = (wait_ms.to_string(), format!("{number}-0"));
        let words: [&[u8]; 8] = [
            b"XREAD",
            b"COUNT",
            b"1",
            b"BLOCK",
            wait.as_bytes(),
            b"STREAMS",
            self.stream.as_bytes(),
            after.as_bytes(),
        ];
        RedisCommand::of(&words, 6)
    }
}
