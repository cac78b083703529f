//! Commands and their replies, in order, as a connection sees them.

use std::sync::Arc;

use wire::resp::reply::Reader;

use super::{COMMANDS, execute};
use crate::database::Database;
use crate::limits::{KEY_BYTES, MESSAGE_BYTES};
use crate::metrics::StoreMetrics;
use crate::reply_writer::ReplyWriter;
use crate::session::Session;

struct StoreConnection {
    database: Arc<Database>,
    session: Session,
    resp3: bool,
}

impl StoreConnection {
    fn with(database: &Arc<Database>) -> StoreConnection {
        StoreConnection {
            database: database.clone(),
            session: Session::new(database),
            resp3: false,
        }
    }

    fn new() -> StoreConnection {
        StoreConnection::with(&Database::private())
    }

    fn send_words(&mut self, words: &[&[u8]]) -> String {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for word in words {
            places.push(bytes.len()..bytes.len() + word.len());
            bytes.extend_from_slice(word);
        }
        let mut out = ReplyWriter::in_process();
        out.resp3 = self.resp3;
        execute(&self.database, &bytes, &places, &mut self.session, &mut out);
        self.resp3 = out.resp3;
        let text = String::from_utf8_lossy(out.contiguous().unwrap()).into_owned();
        text.trim_end().replace("\r\n", " ")
    }

    /// Sends a command whose words are separated by spaces.
    fn send(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.send_words(&words)
    }

    fn expect(&mut self, table: &[(&str, &str)]) {
        for (command, reply) in table {
            assert_eq!(self.send(command), *reply, "{command}");
        }
    }
}

const NO_NUMBER: &str = "-ERR value is not an integer or out of range";
const SYNTAX: &str = "-ERR syntax error";

#[test]
fn values() {
    StoreConnection::new().expect(&[
        ("GET a", "$-1"),
        ("SET a 1", "+OK"),
        ("set a 2 NX", "$-1"),
        ("SET b 2 XX", "$-1"),
        ("SET a 3 xx", "+OK"),
        ("GET a", "$1 3"),
        ("MSET b 4 c 5", "+OK"),
        ("MGET a x c", "*3 $1 3 $-1 $1 5"),
        ("EXISTS a b x a", ":3"),
        ("TOUCH a x", ":1"),
        ("DEL a x b", ":2"),
        ("DBSIZE", ":1"),
        ("FLUSHALL", "+OK"),
        ("DBSIZE", ":0"),
    ]);
}

#[test]
fn values_change_only_if_they_are_what_the_client_has_read() {
    // The clock stands still: what remains of a time is exact.
    net::manual_time::block_on(async {
        StoreConnection::new().expect(&[
            ("SET a 1 IFEQ 1", "$-1"),
            ("SET a 1", "+OK"),
            ("SET a 2 IFEQ 01", "$-1"),
            ("SET a 2 ifeq 1 PX 60000", "+OK"),
            ("TTL a", ":60"),
            ("SET n 7 INT", "+OK"),
            ("SET n 8 IFEQ 07", "$-1"),
            ("SET n 8 IFEQ 7", "+OK"),
            ("DELEX a IFEQ 1", ":0"),
            ("DELEX a IFEQ 2", ":1"),
            ("DELEX a IFEQ 2", ":0"),
            ("DELEX n", ":1"),
            ("DELEX n", ":0"),
            ("SET a 1 IFEQ", SYNTAX),
            ("SET a 1 NX IFEQ 1", SYNTAX),
            ("SET a 1 IFEQ 1 XX", SYNTAX),
            ("DELEX a IFEQ", SYNTAX),
            ("DELEX a IFNE 1", SYNTAX),
        ]);
    });
}

#[test]
fn numbers() {
    // The clock stands still: what remains of a time is exact.
    net::manual_time::block_on(async {
        StoreConnection::new().expect(&[
            ("INCR n", ":1"),
            ("INCRBY n 41", ":42"),
            ("DECR n", ":41"),
            ("DECRBY n 50", ":-9"),
            ("GET n", "$2 -9"),
            ("SET n 10", "+OK"),
            ("INCR n", ":11"),
            ("SET n 010", "+OK"),
            ("INCR n", NO_NUMBER),
            ("INCRBY n 1.5", NO_NUMBER),
            ("SET n 9223372036854775807", "+OK"),
            ("INCR n", "-ERR increment or decrement would overflow"),
            ("DECRBY x -9223372036854775808", "-ERR decrement would overflow"),
            ("INCRBY count 1 PX 60000", ":1"),
            ("TTL count", ":60"),
            ("INCRBY count 1 EX 1000", ":2"),
            ("TTL count", ":60"),
            ("INCRBY count 1 PX", SYNTAX),
        ]);
    });
}

#[test]
fn expiry() {
    // The clock stands still: what remains of a time is exact.
    net::manual_time::block_on(async {
        let mut talk = StoreConnection::new();
        talk.expect(&[
            ("SET a 1 EX 100", "+OK"),
            ("TTL a", ":100"),
            ("SET a 1", "+OK"),
            ("TTL a", ":-1"),
            ("PTTL x", ":-2"),
            ("EXPIRE a 50", ":1"),
            ("EXPIRE x 50", ":0"),
            ("TTL a", ":50"),
            ("PERSIST a", ":1"),
            ("TTL a", ":-1"),
            ("EXPIRE a 0", ":1"),
            ("GET a", "$-1"),
            ("SET a 1 EX 0", "-ERR invalid expire time"),
            ("SET a 1 EX -5", "-ERR invalid expire time"),
            ("SET a 1 EX", NO_NUMBER),
            ("SET a 1 EX 5 PX 5", SYNTAX),
            ("SET a 1 EX 9223372036854775807", "+OK"),
            ("TTL a", ":-1"),
            ("SET b 1 PX 1", "+OK"),
        ]);
        assert_eq!(talk.send("EXISTS b"), ":1");
        net::manual_time::advance(std::time::Duration::from_millis(1)).await;
        assert_eq!(talk.send("EXISTS b"), ":0");
        assert_eq!(talk.send("DBSIZE"), ":1");
        assert_eq!(talk.database.metrics.expired.get(), 1);
    });
}

#[test]
fn types_of_values_are_preserved_in_resp3() {
    let mut talk = StoreConnection::new();
    talk.expect(&[
        ("SET t hi TEXT", "+OK"),
        ("SET n 5 PX 9999 INT", "+OK"),
        ("SET b hi", "+OK"),
        ("MGET t n b", "*3 $2 hi $1 5 $2 hi"),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO 3", &hello(3)),
        ("MGET t n b x", "*4 =6 txt:hi :5 $2 hi _"),
        ("SET t hi TEXT INT", SYNTAX),
        ("SET n x INT", NO_NUMBER),
        ("HELLO 2", &hello(2)),
    ]);
    let not_text = talk.send_words(&[b"SET", b"t", b"\xff", b"TEXT"]);
    assert_eq!(not_text, "-ERR the value is not UTF-8");
}

fn hello(protocol: u8) -> String {
    let head = if protocol == 3 { "%3" } else { "*6" };
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{head} $6 server $8 tidegate $7 version ${} {version} $5 proto :{protocol}",
        version.len()
    )
}

#[test]
fn invalid_commands_are_rejected_and_counted() {
    let mut talk = StoreConnection::new();
    talk.expect(&[
        ("EVAL x", "-ERR unknown command 'EVAL'"),
        ("GET", "-ERR wrong number of arguments for 'GET'"),
        ("GET a b", "-ERR wrong number of arguments for 'GET'"),
        ("MSET a", "-ERR wrong number of arguments for 'MSET'"),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'MSET'"),
        ("SET a 1 NX XX", SYNTAX),
        ("SET a 1 LATER", SYNTAX),
        ("GET ", &format!("-ERR a key has 1 to {KEY_BYTES} bytes")),
    ]);
    assert_eq!(talk.send_words(&[b"\r\nX\xff"]), "-ERR unknown command '??X?'");
    let long = vec![b'k'; KEY_BYTES + 1];
    assert!(talk.send_words(&[b"DEL", b"a", &long]).starts_with("-ERR a key has"));
    assert_eq!(
        (talk.database.metrics.commands.get(), talk.database.metrics.refused.get()),
        (10, 10)
    );
    let mut small = StoreConnection::with(&Database::new(1000, StoreMetrics::default()));
    let large = small.send_words(&[b"SET", b"a", &[b'x'; 1000]]);
    assert_eq!(large, "-ERR the value is larger than the whole store");
}

#[test]
fn scans() {
    let mut talk = StoreConnection::new();
    for number in 0..25 {
        talk.send(&format!("SET user:{number} x"));
    }
    talk.send("SET other x");
    let (mut cursor, mut found) = ("0".to_owned(), 0);
    loop {
        let reply = talk.send(&format!("SCAN {cursor} MATCH user:* COUNT 4"));
        found += reply.matches("user:").count();
        assert!(!reply.contains("other"));
        cursor = reply.split(' ').nth(2).unwrap().to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, 25);
    talk.expect(&[
        ("DBSIZE user:", ":25"),
        ("DBSIZE user:2", ":6"),
        ("SCAN 0 MATCH other COUNT 100", "*2 $1 0 *1 $5 other"),
        ("SCAN 0 MATCH u*r", "-ERR MATCH takes a prefix and an asterisk"),
        ("SCAN x", NO_NUMBER),
        ("SCAN 0 COUNT", SYNTAX),
        ("SCAN 9000000000000", "*2 $1 0 *0"),
    ]);
}

#[test]
fn channels() {
    let database = Database::private();
    let (mut one, mut other) = (StoreConnection::with(&database), StoreConnection::with(&database));
    one.expect(&[
        ("SUBSCRIBE a b", "*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2"),
        ("SUBSCRIBE a", "*3 $9 subscribe $1 a :2"),
        ("PING", "*2 $4 pong $0"),
        ("GET a", "-ERR GET cannot be used while this connection is subscribed"),
    ]);
    other.expect(&[
        ("PING", "+PONG"),
        ("PING hi", "$2 hi"),
        ("PUBLISH a hello", ":1"),
        ("PUBLISH a hello TEXT", ":1"),
        ("PUBLISH a hello LOUD", SYNTAX),
        ("PUBLISH unused hello", ":0"),
        ("UNSUBSCRIBE", "*3 $11 unsubscribe $-1 :0"),
    ]);
    let texts: Vec<bool> = std::iter::from_fn(|| one.session.queue.pop().unwrap())
        .map(|message| message.text)
        .collect();
    assert_eq!(texts, [false, true]);
    let long = vec![b'm'; MESSAGE_BYTES + 1];
    assert!(other.send_words(&[b"PUBLISH", b"a", &long]).starts_with("-ERR a message has"));
    one.expect(&[("UNSUBSCRIBE a", "*3 $11 unsubscribe $1 a :1")]);
    other.expect(&[("PUBLISH a hello", ":0"), ("PUBLISH b hello", ":1")]);
    assert_eq!(database.metrics.subscriptions.get(), 1);
    drop(one);
    other.expect(&[("PUBLISH b hello", ":0")]);
    assert_eq!(database.metrics.subscriptions.get(), 0);
    assert!(other.send("INFO").contains("messages_published:6"));
    other.expect(&[("QUIT", "+OK")]);
    assert!(other.session.closing);
}

/// A small generator of a fixed sequence.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 8) as usize
}

#[test]
fn random_commands_get_complete_replies_in_bounded_memory() {
    let names: Vec<&str> = COMMANDS.iter().map(|row| row.0).collect();
    let words = [
        "a",
        "b",
        "c",
        "1",
        "0",
        "-1",
        "7",
        "9223372036854775807",
        "EX",
        "PX",
        "NX",
        "XX",
        "TEXT",
        "INT",
        "MATCH",
        "COUNT",
        "a*",
        "2",
        "3",
        "",
        "\u{ff}",
        "*",
    ];
    let database = Database::new(2000, StoreMetrics::default());
    let (mut state, mut session) = (11, Session::new(&database));
    let mut resp3 = false;
    for _ in 0..50_000 {
        let mut bytes = names[next(&mut state) % names.len()].as_bytes().to_vec();
        let mut places = std::iter::once(0..bytes.len()).collect::<Vec<_>>();
        for _ in 0..next(&mut state) % 6 {
            let word = words[next(&mut state) % words.len()];
            // Some are long, to evict others.
            let times = if next(&mut state).is_multiple_of(20) { 200 } else { 1 };
            places.push(bytes.len()..bytes.len() + word.len() * times);
            bytes.extend(word.repeat(times).as_bytes());
        }
        let mut out = ReplyWriter::in_process();
        out.resp3 = resp3;
        execute(&database, &bytes, &places, &mut session, &mut out);
        resp3 = out.resp3;
        let (mut rest, mut reader) = (out.contiguous().unwrap(), Reader::default());
        assert!(!rest.is_empty());
        while !rest.is_empty() {
            let read = reader.read(rest, &wire::resp::reply::Limits::default());
            rest = &rest[read.unwrap().expect("a complete reply")..];
        }
        while let Ok(Some(_)) = session.queue.pop() {}
        assert!(database.lock().map.bytes() <= 2000);
    }
    assert!(database.metrics.evicted.get() > 0 && database.metrics.hits.get() > 0);
}

#[test]
fn jobs_are_run_by_one_connection_and_return_when_it_ends() {
    let database = Database::private();
    let mut web = StoreConnection::with(&database);
    let mut runner = StoreConnection::with(&database);
    web.expect(&[
        ("TASK ADD mail x RETRIES 1 KEY k", ":1"),
        ("TASK ADD mail y KEY k", "$-1"),
        ("TASK ADD mail z DELAY 60000", ":2"),
        ("TASK STATS", "*1 *3 $4 mail :2 :0"),
        ("TASK FIND 1", "*2 $7 waiting :0"),
    ]);
    runner.expect(&[
        ("TASK TAKE other", "$-1"),
        ("TASK TAKE other mail", "*4 :1 $4 mail $1 x :1"),
        ("TASK FIND 1", "*2 $7 running :1"),
    ]);
    let wait_ms: u64 = runner.send("TASK TAKE mail")[1..].parse().unwrap();
    assert!((50_000..=60_000).contains(&wait_ms), "{wait_ms}");
    web.expect(&[("TASK DONE 1", ":0"), ("TASK FAIL 1", "$-1"), ("TASK RETURN 1", ":0")]);
    drop(runner);
    let mut next = StoreConnection::with(&database);
    next.expect(&[
        ("TASK TAKE mail", "*4 :1 $4 mail $1 x :2"),
        ("TASK RETURN 1", ":1"),
        ("TASK TAKE mail", "*4 :1 $4 mail $1 x :2"),
        ("TASK FAIL 1", ":-1"),
        ("TASK CANCEL 1", ":0"),
        ("TASK CANCEL 2", ":1"),
        ("TASK ADD mail x", ":3"),
        ("TASK CLEAR other", ":0"),
        ("TASK CLEAR", ":1"),
        ("TASK FIND 3", "$-1"),
    ]);
    let (load, counts) = database.tasks();
    assert_eq!((load.waiting, load.running), (0, 0));
    assert_eq!((counts.lost, counts.retried, counts.failed, counts.cancelled), (1, 1, 1, 2));
}

#[test]
fn a_cancellation_reaches_the_connection_that_runs_the_job() {
    let database = Database::private();
    let (mut web, mut runner) =
        (StoreConnection::with(&database), StoreConnection::with(&database));
    runner.send("HELLO 3");
    runner.send("SUBSCRIBE tidegate:tasks");
    web.send("TASK ADD a x");
    runner.expect(&[("TASK TAKE a", "*4 :1 $1 a $1 x :1")]);
    web.expect(&[("TASK CANCEL 1", ":2")]);
    let messages: Vec<_> = std::iter::from_fn(|| runner.session.queue.pop().unwrap())
        .map(|message| message.payload)
        .collect();
    assert_eq!(messages, ["", "1"]);
    runner.expect(&[("TASK FAIL 1", ":-2")]);
}

#[test]
fn malformed_commands_about_jobs_are_rejected() {
    let mut one = StoreConnection::new();
    for command in [
        "TASK",
        "TASK WHAT",
        "TASK ADD",
        "TASK ADD a x DELAY",
        "TASK ADD a x DELAY -1",
        "TASK ADD a x DELAY 2592000001",
        "TASK ADD a x RETRIES 101",
        "TASK ADD a x WHAT 1",
        "TASK EVERY a 0",
        "TASK EVERY a",
        "TASK CRON a",
        "TASK CRON a @fortnightly",
        "TASK CRON a 1",
        "TASK REPORT 1 2 3",
        "TASK REPORT 1 2 3 4 5 6 7 8 x",
        "TASK DONE",
        "TASK DONE x",
        "TASK DONE -1",
        "TASK FIND 1 2",
        "TASK CLEAR a b",
    ] {
        let reply = one.send(command);
        assert!(reply.starts_with("-ERR "), "{command}: {reply}");
    }
    let long = vec![b'x'; crate::limits::TASK_PAYLOAD_BYTES + 1];
    assert!(one.send_words(&[b"TASK", b"ADD", b"a", &long]).contains("at most 1048576 bytes"));
    assert!(one.send_words(&[b"TASK", b"ADD", b"", b"x"]).contains("name of a task"));
    assert_eq!(one.send("TASK STATS"), "*0");
}
