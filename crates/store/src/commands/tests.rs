//! Commands and their answers, one after the other, as a connection would see them.

use std::sync::Arc;

use wire::resp::reply::Reader;

use super::{COMMANDS, execute};
use crate::limits::{KEY_BYTES, MESSAGE_BYTES};
use crate::meters::Meters;
use crate::outlet::Outlet;
use crate::session::Session;
use crate::space::Space;

struct Talk {
    space: Arc<Space>,
    session: Session,
    typed: bool,
}

impl Talk {
    fn with(space: &Arc<Space>) -> Talk {
        Talk { space: space.clone(), session: Session::new(space), typed: false }
    }

    fn new() -> Talk {
        Talk::with(&Space::private())
    }

    fn say_words(&mut self, words: &[&[u8]]) -> String {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for word in words {
            places.push(bytes.len()..bytes.len() + word.len());
            bytes.extend_from_slice(word);
        }
        let mut out = Outlet::whole();
        out.typed = self.typed;
        execute(&self.space, &bytes, &places, &mut self.session, &mut out);
        self.typed = out.typed;
        let text = String::from_utf8_lossy(out.piece().unwrap()).into_owned();
        text.trim_end().replace("\r\n", " ")
    }

    /// Words parted by spaces.
    fn say(&mut self, command: &str) -> String {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.say_words(&words)
    }

    fn expect(&mut self, table: &[(&str, &str)]) {
        for (command, answer) in table {
            assert_eq!(self.say(command), *answer, "{command}");
        }
    }
}

const NO_NUMBER: &str = "-ERR value is not an integer or out of range";
const SYNTAX: &str = "-ERR syntax error";

#[test]
fn values() {
    Talk::new().expect(&[
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
fn numbers() {
    Talk::new().expect(&[
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
}

#[test]
fn time() {
    let mut talk = Talk::new();
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
    while talk.say("EXISTS b") == ":1" {
        std::thread::yield_now();
    }
    assert_eq!(talk.say("DBSIZE"), ":1");
    assert_eq!(talk.space.meters.expired.get(), 1);
}

#[test]
fn kinds_of_values_come_back_where_the_protocol_has_them() {
    let mut talk = Talk::new();
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
    let not_text = talk.say_words(&[b"SET", b"t", b"\xff", b"TEXT"]);
    assert_eq!(not_text, "-ERR the value is no UTF-8");
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
fn what_cannot_be_is_refused_and_counted() {
    let mut talk = Talk::new();
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
    assert_eq!(talk.say_words(&[b"\r\nX\xff"]), "-ERR unknown command '??X?'");
    let long = vec![b'k'; KEY_BYTES + 1];
    assert!(talk.say_words(&[b"DEL", b"a", &long]).starts_with("-ERR a key has"));
    assert_eq!((talk.space.meters.commands.get(), talk.space.meters.refused.get()), (10, 10));
    let mut small = Talk::with(&Space::new(1000, Meters::default()));
    let large = small.say_words(&[b"SET", b"a", &[b'x'; 1000]]);
    assert_eq!(large, "-ERR the value is larger than the whole store");
}

#[test]
fn scans() {
    let mut talk = Talk::new();
    for number in 0..25 {
        talk.say(&format!("SET user:{number} x"));
    }
    talk.say("SET other x");
    let (mut cursor, mut found) = ("0".to_owned(), 0);
    loop {
        let answer = talk.say(&format!("SCAN {cursor} MATCH user:* COUNT 4"));
        found += answer.matches("user:").count();
        assert!(!answer.contains("other"));
        cursor = answer.split(' ').nth(2).unwrap().to_owned();
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
    let space = Space::private();
    let (mut one, mut other) = (Talk::with(&space), Talk::with(&space));
    one.expect(&[
        ("SUBSCRIBE a b", "*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2"),
        ("SUBSCRIBE a", "*3 $9 subscribe $1 a :2"),
        ("PING", "*2 $4 pong $0"),
        ("GET a", "-ERR GET cannot be used while this connection listens"),
    ]);
    other.expect(&[
        ("PING", "+PONG"),
        ("PING hi", "$2 hi"),
        ("PUBLISH a hello", ":1"),
        ("PUBLISH a hello TEXT", ":1"),
        ("PUBLISH a hello LOUD", SYNTAX),
        ("PUBLISH nobody hello", ":0"),
        ("UNSUBSCRIBE", "*3 $11 unsubscribe $-1 :0"),
    ]);
    let texts: Vec<bool> = std::iter::from_fn(|| one.session.mailbox.take().unwrap())
        .map(|message| message.text)
        .collect();
    assert_eq!(texts, [false, true]);
    let long = vec![b'm'; MESSAGE_BYTES + 1];
    assert!(other.say_words(&[b"PUBLISH", b"a", &long]).starts_with("-ERR a message has"));
    one.expect(&[("UNSUBSCRIBE a", "*3 $11 unsubscribe $1 a :1")]);
    other.expect(&[("PUBLISH a hello", ":0"), ("PUBLISH b hello", ":1")]);
    assert_eq!(space.meters.listeners.get(), 1);
    drop(one);
    other.expect(&[("PUBLISH b hello", ":0")]);
    assert_eq!(space.meters.listeners.get(), 0);
    assert!(other.say("INFO").contains("messages_published:6"));
    other.expect(&[("QUIT", "+OK")]);
    assert!(other.session.ends);
}

/// A small generator: the same numbers every time.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 8) as usize
}

#[test]
fn whatever_is_said_the_answer_is_whole_and_memory_is_bounded() {
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
    let space = Space::new(2000, Meters::default());
    let (mut state, mut session) = (11, Session::new(&space));
    let mut typed = false;
    for _ in 0..50_000 {
        let mut bytes = names[next(&mut state) % names.len()].as_bytes().to_vec();
        let mut places = std::iter::once(0..bytes.len()).collect::<Vec<_>>();
        for _ in 0..next(&mut state) % 6 {
            let word = words[next(&mut state) % words.len()];
            // Some are long, to push others out.
            let times = if next(&mut state).is_multiple_of(20) { 200 } else { 1 };
            places.push(bytes.len()..bytes.len() + word.len() * times);
            bytes.extend(word.repeat(times).as_bytes());
        }
        let mut out = Outlet::whole();
        out.typed = typed;
        execute(&space, &bytes, &places, &mut session, &mut out);
        typed = out.typed;
        let (mut rest, mut reader) = (out.piece().unwrap(), Reader::default());
        assert!(!rest.is_empty());
        while !rest.is_empty() {
            let read = reader.read(rest, &wire::resp::reply::Limits::default());
            rest = &rest[read.unwrap().expect("a whole answer")..];
        }
        while let Ok(Some(_)) = session.mailbox.take() {}
        assert!(space.enter().map.bytes() <= 2000);
    }
    assert!(space.meters.evicted.get() > 0 && space.meters.hits.get() > 0);
}
