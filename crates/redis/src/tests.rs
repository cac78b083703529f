//! Each setting of the section, and the client against scripted servers on a Unix socket and TCP.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use net::manual_time::block_on;
use net::{Bind, ListenOptions, Listener, Listening, Outgoing, Stream, task};
use settings::{Node, Reader, Report, Setting, Spanned, node};
use store::Reply;
use wire::resp::{Limits, parse_command};

use crate::{RedisClient, RedisCommand, RedisError, RedisPlan, Script, SharedSettings};

fn plan(settings: &Node) -> Result<Arc<RedisPlan>, String> {
    let mut report = Report::new();
    let mut reader = Reader::new(&mut report);
    let read: Option<Spanned<SharedSettings>> = Spanned::read(settings, &mut reader);
    let plan = read.and_then(|read| RedisPlan::new(&read, &mut reader));
    match plan {
        Some(plan) if report.is_empty() => Ok(Arc::new(plan)),
        _ => Err(report.render()),
    }
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<SharedSettings>().unwrap();
}

#[test]
fn errors_of_the_section() {
    let one = "redis://a";
    for (settings, why) in [
        (node!({ "redis": [] }), "1 to 64"),
        (node!({ "redis": [one, "redis://b"] }), "sentinel: NAME"),
        (node!({ "redis": [one], "cluster": true, "sentinel": "m" }), "write one of both"),
        (node!({ "redis": [one], "cluster": true, "database": 1 }), "database 0"),
        (node!({ "redis": ["unix:/a"], "cluster": true }), "over TCP"),
        (node!({ "redis": [one], "username": "u" }), "needs a `password`"),
        (node!({ "redis": [one], "sentinel_password": "u" }), "without `sentinel`"),
        (node!({ "redis": [one], "prefix": "a b" }), "letters, digits"),
        (node!({ "redis": [one], "tls": {} }), "no effect"),
        (node!({ "redis": ["redis:/a"] }), "write redis://"),
        (node!({ "redis": [one], "intervall": "1s" }), "interval"),
    ] {
        let error = plan(&settings).unwrap_err();
        assert!(error.contains(why), "{why}: {error}");
    }
    let shown = format!("{:?}", plan(&node!({ "redis": [one], "password": "s3cret" })).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
}

/// The commands that a scripted server received, each as one line.
type Received = Rc<RefCell<Vec<String>>>;

/// A server that replies to each command by a function.
fn serve(listener: Listener, received: &Received, reply: impl Fn(&str) -> String + 'static) {
    let (received, reply) = (received.clone(), Rc::new(reply));
    drop(task::spawn_local(async move {
        while let Ok(accepted) = listener.accept().await {
            let (received, reply) = (received.clone(), reply.clone());
            drop(task::spawn_local(async move {
                let _ = talk(accepted.stream, &received, &*reply).await;
            }));
        }
    }));
}

async fn talk(
    stream: Stream,
    received: &Received,
    reply: &dyn Fn(&str) -> String,
) -> std::io::Result<()> {
    let (mut input, mut words) = (Vec::new(), Vec::new());
    loop {
        let chunk = stream.receive().await?;
        if chunk.is_empty() {
            return Ok(());
        }
        input.extend_from_slice(&chunk);
        while let Ok(Some(length)) = parse_command(&input, &Limits::default(), &mut words) {
            let text = |word: &std::ops::Range<usize>| {
                String::from_utf8_lossy(&input[word.clone()]).into_owned()
            };
            let line = words.iter().map(text).collect::<Vec<_>>().join(" ");
            input.drain(..length);
            received.borrow_mut().push(line.clone());
            let bytes = reply(&line);
            if bytes.is_empty() {
                return Ok(());
            }
            let mut outgoing = Outgoing::default();
            outgoing.push(bytes.into());
            stream.send_all(&mut outgoing).await?;
        }
    }
}

/// A listener on a free port, and its address.
fn listener() -> (Listener, String) {
    let anywhere = Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let listening = Listening::bind(&anywhere, 1, &ListenOptions::default()).unwrap();
    let Bind::Tcp(address) = *listening.local() else { panic!("TCP was requested") };
    (listening.into_sockets().remove(0).adopt().unwrap(), address.to_string())
}

fn ping(key: &str) -> RedisCommand {
    RedisCommand::of(&[b"GET", key.as_bytes()], 1)
}

fn ok(line: &str) -> String {
    match line.split(' ').next() {
        Some("GET") => format!(":{}\r\n", line.len()),
        _ => "+OK\r\n".to_owned(),
    }
}

#[test]
fn a_connection_is_set_up_once() {
    block_on(async {
        let (listener, address) = listener();
        let received = Received::default();
        serve(listener, &received, ok);
        let settings = node!({
            "redis": [(format!("redis://{address}"))], "username": "u", "password": "p",
            "database": 3,
        });
        let script = Script::new("return 1");
        let mut client = RedisClient::new(plan(&settings).unwrap(), vec![script]);
        for _ in 0..2 {
            let results = client.run(&[ping("a"), ping("bc")]).await;
            assert_eq!(results, [Ok(Reply::Integer(5)), Ok(Reply::Integer(6))]);
        }
        let expected =
            ["AUTH u p", "SELECT 3", "SCRIPT LOAD return 1", "GET a", "GET bc", "GET a", "GET bc"];
        assert_eq!(*received.borrow(), expected);
    });
}

#[test]
fn a_failed_connection_is_replaced() {
    block_on(async {
        let (listener, address) = listener();
        let received = Received::default();
        serve(listener, &received, |line| match line {
            "GET close" => String::new(),
            "GET script" => "-NOSCRIPT No matching script\r\n".to_owned(),
            "GET wrong" => "-ERR wrong\r\n".to_owned(),
            line => ok(line),
        });
        let settings = node!({ "redis": [(format!("redis://{address}"))], "database": 1 });
        let mut client = RedisClient::new(plan(&settings).unwrap(), Vec::new());
        let setups = || received.borrow().iter().filter(|line| *line == "SELECT 1").count();
        let lost = client.run(&[ping("a"), ping("close")]).await;
        assert!(lost.iter().all(|one| matches!(one, Err(RedisError::Lost(_)))), "{lost:?}");
        let wrong = client.run(&[ping("wrong"), ping("a")]).await;
        assert!(matches!(&wrong[0], Err(RedisError::Refused(why)) if why.contains("ERR wrong")));
        assert_eq!((wrong[1].clone(), setups()), (Ok(Reply::Integer(5)), 2));
        client.run(&[ping("a")]).await;
        assert_eq!(setups(), 2, "an error of a command keeps the connection");
        client.run(&[ping("script")]).await;
        client.run(&[ping("a")]).await;
        assert_eq!(setups(), 3);
    });
}

#[test]
fn a_rejected_password_is_not_shown() {
    block_on(async {
        let (listener, address) = listener();
        let received = Received::default();
        serve(listener, &received, |_| {
            "-ERR unknown command 'AUTH', with args beginning with: 's3cret'\r\n".to_owned()
        });
        let settings = node!({ "redis": [(format!("redis://{address}"))], "password": "s3cret" });
        let mut client = RedisClient::new(plan(&settings).unwrap(), Vec::new());
        let error = client.run(&[ping("a")]).await[0].clone().unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, RedisError::Unreachable(_)), "{text}");
        assert!(text.contains("credentials were rejected (ERR)") && !text.contains("s3cret"));
    });
}

#[test]
fn a_silent_server_ends_a_call_by_the_time_out() {
    block_on(async {
        let (listener, address) = listener();
        let received = Received::default();
        let settings = node!({ "redis": [(format!("redis://{address}"))], "timeout": "200ms" });
        serve(listener, &received, |_| "+".to_owned());
        let mut client = RedisClient::new(plan(&settings).unwrap(), Vec::new());
        let call = task::spawn_local(async move { client.run(&[ping("a")]).await });
        net::manual_time::advance(std::time::Duration::from_millis(300)).await;
        let results = call.await.unwrap();
        let late = |error: &RedisError| error.to_string().contains("within the time-out");
        assert!(results[0].as_ref().is_err_and(late), "{results:?}");
    });
}

fn named(address: &str) -> String {
    let (host, port) = address.rsplit_once(':').unwrap();
    format!("${}\r\n{host}\r\n${}\r\n{port}\r\n", host.len(), port.len())
}

#[test]
fn sentinels_name_the_primary() {
    block_on(async {
        let ((first, old), (second, new), (sentinel, asked)) = (listener(), listener(), listener());
        let (at_old, at_new, at_sentinel) =
            (Received::default(), Received::default(), Received::default());
        serve(first, &at_old, |line| match line {
            "GET a" => "-READONLY You can't write against a read only replica.\r\n".to_owned(),
            line => ok(line),
        });
        serve(second, &at_new, ok);
        let counted = at_sentinel.clone();
        serve(sentinel, &at_sentinel, move |_| {
            let primary = if counted.borrow().len() < 2 { &old } else { &new };
            format!("*2\r\n{}", named(primary))
        });
        let settings = node!({ "redis": [(format!("redis://{asked}"))], "sentinel": "m" });
        let mut client = RedisClient::new(plan(&settings).unwrap(), Vec::new());
        assert!(client.run(&[ping("a")]).await[0].is_err());
        assert_eq!(client.run(&[ping("a")]).await, [Ok(Reply::Integer(5))]);
        assert_eq!(client.run(&[ping("a")]).await, [Ok(Reply::Integer(5))]);
        assert_eq!(at_sentinel.borrow().len(), 2, "asked again after a failure only");
        assert_eq!(at_sentinel.borrow()[0], "SENTINEL GET-MASTER-ADDR-BY-NAME m");
    });
}

#[test]
fn a_cluster_gets_commands_by_their_slots_and_redirects_them() {
    block_on(async {
        let ((first, low), (second, high)) = (listener(), listener());
        let (at_low, at_high) = (Received::default(), Received::default());
        let port = |address: &str| address.rsplit_once(':').unwrap().1.to_owned();
        let range = |from: u16, to: u16, address: &str| {
            let port = port(address);
            format!("*3\r\n:{from}\r\n:{to}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
        };
        // The slot of `foo` is 12182, that of `a` 15495, that of `b` 3300.
        let slots = format!("*2\r\n{}{}", range(0, 9999, &low), range(10000, 16383, &high));
        let moved = format!("-MOVED 12182 {low}\r\n");
        let ask = format!("-ASK 15495 {low}\r\n");
        let for_high = slots.clone();
        serve(first, &at_low, move |line| match line {
            "CLUSTER SLOTS" => slots.clone(),
            line => ok(line),
        });
        serve(second, &at_high, move |line| match line {
            "CLUSTER SLOTS" => for_high.clone(),
            "GET foo" => moved.clone(),
            "GET a" => ask.clone(),
            line => ok(line),
        });
        let settings = node!({ "redis": [(format!("redis://{low}"))], "cluster": true });
        let mut client = RedisClient::new(plan(&settings).unwrap(), Vec::new());
        let results = client.run(&[ping("foo"), ping("a"), ping("b")]).await;
        let expected = [7, 5, 5].map(|length| Ok(Reply::Integer(length)));
        assert_eq!(results, expected);
        let low = at_low.borrow();
        assert_eq!(low[..2], ["CLUSTER SLOTS", "GET b"]);
        let rest = low[2..].join(", ");
        assert!(rest.contains("ASKING, GET a") && rest.contains("GET foo"), "{rest}");
        let high = at_high.borrow().join(", ");
        assert!(high == "GET foo, GET a", "{high}");
    });
}
