//! Commands about the store and the connection.

use super::{Call, CommandError, CommandResult, SYNTAX};
use crate::limits::SCAN_ENTRIES;

/// Keys that one `SCAN` examines by default.
const DEFAULT_SCAN_COUNT: usize = 10;

/// With a prefix, counts the keys that begin with it, which scans all keys.
pub(super) fn size(call: &mut Call<'_>) -> CommandResult {
    let mut count = call.state.map.len();
    if call.len() == 2 {
        let prefix = call.word(1);
        count = 0;
        call.state.map.scan(0, usize::MAX, call.now_ms, |key| {
            count += usize::from(key.starts_with(prefix));
        });
    }
    call.out.count(count);
    Ok(())
}

pub(super) fn scan(call: &mut Call<'_>) -> CommandResult {
    let number = |at| usize::try_from(call.number(at)?).map_err(|_| CommandError::from(SYNTAX));
    let cursor = number(1)?;
    let (mut prefix, mut exact, mut count) = (&b""[..], false, DEFAULT_SCAN_COUNT);
    let mut at = 2;
    while at + 1 < call.len() {
        if call.is_word(at, "COUNT") {
            count = number(at + 1)?.clamp(1, SCAN_ENTRIES);
        } else if call.is_word(at, "MATCH") {
            (prefix, exact) = pattern(call.word(at + 1))?;
        } else {
            return Err(SYNTAX);
        }
        at += 2;
    }
    if at != call.len() {
        return Err(SYNTAX);
    }
    let mut found: Vec<Box<[u8]>> = Vec::new();
    let next = call.state.map.scan(cursor, count, call.now_ms, |key| {
        if key == prefix || !exact && key.starts_with(prefix) {
            found.push(key.into());
        }
    });
    call.out.array(2);
    call.out.bulk(next.to_string().as_bytes());
    call.out.array(found.len());
    for key in found {
        call.out.bulk(&key);
    }
    Ok(())
}

/// Returns a prefix and whether it must be the whole key.
fn pattern(pattern: &[u8]) -> Result<(&[u8], bool), CommandError> {
    let (prefix, exact) = match pattern.split_last() {
        Some((b'*', prefix)) => (prefix, false),
        _ => (pattern, true),
    };
    if prefix.iter().any(|byte| b"*?[\\".contains(byte)) {
        return Err("ERR MATCH takes a prefix and an asterisk".into());
    }
    Ok((prefix, exact))
}

pub(super) fn flush(call: &mut Call<'_>) -> CommandResult {
    call.state.map.clear();
    call.out.ok();
    Ok(())
}

pub(super) fn ping(call: &mut Call<'_>) -> CommandResult {
    let word = call.word(1);
    if call.session.is_subscribed() && !call.out.resp3 {
        call.out.array(2);
        call.out.bulk(b"pong");
        call.out.bulk(word);
    } else if call.len() == 2 {
        call.out.bulk(word);
    } else {
        call.out.simple("PONG");
    }
    Ok(())
}

pub(super) fn hello(call: &mut Call<'_>) -> CommandResult {
    match call.word(1) {
        b"" => {}
        b"2" => call.out.resp3 = false,
        b"3" => call.out.resp3 = true,
        _ => return Err("NOPROTO unsupported protocol version".into()),
    }
    let protocol = if call.out.resp3 { 3 } else { 2 };
    call.out.map(3);
    call.out.bulk(b"server");
    call.out.bulk(b"tidegate");
    call.out.bulk(b"version");
    call.out.bulk(env!("CARGO_PKG_VERSION").as_bytes());
    call.out.bulk(b"proto");
    call.out.integer(protocol);
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>) -> CommandResult {
    let (map, metrics) = (&call.state.map, call.metrics);
    let text = format!(
        "# Server\r\ntidegate_version:{}\r\n\r\n# Clients\r\nconnected_clients:{}\r\n\r\n\
         # Memory\r\nused_memory:{}\r\nmaxmemory:{}\r\nmaxmemory_policy:sieve\r\n\r\n\
         # Stats\r\ntotal_commands_processed:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\n\
         evicted_keys:{}\r\nexpired_keys:{}\r\nmessages_published:{}\r\n\
         pubsub_listeners:{}\r\nslow_connections:{}\r\n\r\n# Keyspace\r\nkeys:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        metrics.connections.get(),
        map.bytes(),
        map.limit(),
        metrics.commands.get(),
        metrics.hits.get(),
        metrics.misses.get(),
        metrics.evicted.get(),
        metrics.expired.get(),
        metrics.published.get(),
        call.state.pubsub.subscriptions(),
        metrics.slow.get(),
        map.len(),
    );
    call.out.bulk(text.as_bytes());
    Ok(())
}

pub(super) fn quit(call: &mut Call<'_>) -> CommandResult {
    call.session.closing = true;
    call.out.ok();
    Ok(())
}
