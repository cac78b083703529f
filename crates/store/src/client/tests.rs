//! Clients of a database in this process and of one behind a socket: the same calls, the same
//! replies.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use net::{Bind, ListenOptions, Listening, worker};
use tempfile::TempDir;

use super::{CallResult, Client, Reply, Request, StoreError, Subscription};
use crate::database::Database;
use crate::limits::VALUE_BYTES;
use crate::server::StoreServer;
use crate::subscriber_queue::QueueClosed;

const LONG: Duration = Duration::from_secs(60);

struct Served {
    store: StoreServer,
    directory: TempDir,
}

impl Served {
    fn new() -> Served {
        let directory = tempfile::tempdir().unwrap();
        let store =
            StoreServer::start(&directory.path().join("store"), Database::private()).unwrap();
        Served { store, directory }
    }

    fn client(&self) -> Client {
        Client::unix(self.store.path()).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.store.path().to_owned()
    }
}

fn call(client: &Client, words: &[&[u8]]) -> CallResult {
    client.start(Request::of(words)).wait(LONG).expect("a reply")
}

fn bytes(text: &'static str) -> Reply {
    Reply::Bytes(Bytes::from_static(text.as_bytes()))
}

fn subscribe(client: &Client, channels: &[&str]) -> Subscription {
    let channels: Vec<Vec<u8>> = channels.iter().map(|name| name.as_bytes().to_vec()).collect();
    let (subscription, active) = client.start_subscribe(&channels);
    assert_eq!(active.wait(LONG), Some(Ok(Vec::new())));
    subscription
}

fn received(subscription: &Subscription) -> (String, String, bool) {
    let message = subscription.queue().pop_timeout(LONG).unwrap().expect("a message");
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&message.channel), text(&message.payload), message.text)
}

fn calls(client: &Client) {
    assert_eq!(call(client, &[b"SET", b"a", b"1"]), Ok(vec![Reply::Ok]));
    assert_eq!(call(client, &[b"SET", b"t", b"yes", b"TEXT"]), Ok(vec![Reply::Ok]));
    let mut many = Request::default();
    many.command(&[b"MGET", b"a", b"t", b"x"]);
    many.command(&[b"INCR", b"n"]);
    many.command(&[b"GET", b"n"]);
    many.command(&[b"NONSENSE"]);
    let text = Reply::Text(Bytes::from_static(b"yes"));
    let expected = vec![
        Reply::List(vec![bytes("1"), text, Reply::Nothing]),
        Reply::Integer(1),
        Reply::Integer(1),
        Reply::Refused("ERR unknown command 'NONSENSE'".to_owned()),
    ];
    assert_eq!(client.start(many).wait(LONG), Some(Ok(expected)));
    let large = vec![b'x'; 3 << 20];
    assert_eq!(call(client, &[b"SET", b"large", &large]), Ok(vec![Reply::Ok]));
    assert_eq!(call(client, &[b"GET", b"large"]), Ok(vec![Reply::Bytes(large.into())]));
    let whole = vec![b'x'; VALUE_BYTES];
    assert_eq!(call(client, &[b"SET", b"large", &whole, b"TEXT"]), Ok(vec![Reply::Ok]));
    let fits = call(client, &[b"MSET", b"a", &whole, b"b", &whole[..VALUE_BYTES - 100]]);
    assert_eq!(fits, Ok(vec![Reply::Ok]));
    let too_large: [&[&[u8]]; 3] = [
        &[b"SET", b"a", &[&whole[..], b"x"].concat()],
        &[b"MSET", b"a", &whole, b"b", &whole, b"c", b""],
        &[&b"GET"[..]; 1025],
    ];
    for words in too_large {
        assert!(matches!(call(client, words), Err(StoreError::Refused(_))));
    }
    assert_eq!(call(client, &[b"DEL", b"a", b"b", b"large"]), Ok(vec![Reply::Integer(3)]));
}

fn channels(client: &Client, other: &Client) {
    let (one, two) = (subscribe(client, &["a", "b"]), subscribe(client, &["b"]));
    call(other, &[b"PUBLISH", b"a", b"1"]).unwrap();
    call(other, &[b"PUBLISH", b"b", b"2", b"TEXT"]).unwrap();
    assert_eq!(received(&one), ("a".into(), "1".into(), false));
    assert_eq!(received(&one), ("b".into(), "2".into(), true));
    assert_eq!(received(&two), ("b".into(), "2".into(), true));
    drop(one);
    call(other, &[b"PUBLISH", b"b", b"3"]).unwrap();
    assert_eq!(received(&two), ("b".into(), "3".into(), false));
    drop(two);
    // Subscribes and unsubscribes faster than it is confirmed: the last request counts.
    for _ in 0..20 {
        drop(client.subscribe(&[b"b".to_vec()], |_| ()));
    }
    let last = subscribe(client, &["b"]);
    call(other, &[b"PUBLISH", b"b", b"4"]).unwrap();
    assert_eq!(received(&last), ("b".into(), "4".into(), false));
    let (refused, active) = client.start_subscribe(&[Vec::new()]);
    assert!(matches!(active.wait(LONG), Some(Err(StoreError::Refused(_)))));
    drop(refused);
}

#[test]
fn a_store_in_this_process() {
    let database = Database::private();
    let (one, other) = (Client::in_process(database.clone()), Client::in_process(database));
    calls(&one);
    channels(&one, &other);
}

#[test]
fn a_store_behind_a_socket() {
    let served = Served::new();
    let (one, other) = (served.client(), served.client());
    calls(&one);
    channels(&one, &other);
    assert_eq!(call(&other, &[b"GET", b"n"]), Ok(vec![Reply::Integer(1)]));
}

#[test]
fn many_threads_get_their_own_replies() {
    let served = Served::new();
    let client = served.client();
    std::thread::scope(|scope| {
        for number in 0..4_u8 {
            let client = &client;
            scope.spawn(move || {
                for round in 0..250_u8 {
                    let (key, value) = ([b'k', number], [number, round]);
                    let mut request = Request::of(&[b"SET", &key, &value]);
                    request.command(&[b"GET", &key]);
                    request.command(&[b"INCR", b"all"]);
                    let replies = client.start(request).wait(LONG).unwrap().unwrap();
                    assert_eq!(replies[1], Reply::Bytes(Bytes::copy_from_slice(&value)));
                }
            });
        }
    });
    assert_eq!(call(&client, &[b"GET", b"all"]), Ok(vec![Reply::Integer(1000)]));
}

#[test]
fn a_lost_store_is_noticed_and_a_restarted_one_is_used() {
    let served = Served::new();
    let (client, path) = (served.client(), served.path());
    let subscription = subscribe(&client, &["a"]);
    let Served { store, directory } = served;
    drop(store);
    let shut = loop {
        match subscription.queue().pop_timeout(LONG) {
            Err(shut) => break shut,
            Ok(message) => assert_eq!(message, None, "nothing was published"),
        }
    };
    assert_eq!(shut, QueueClosed::Lost);
    let failure = call(&client, &[b"PING"]).unwrap_err();
    assert!(matches!(failure, StoreError::Unreachable(_)), "{failure}");
    let store = StoreServer::start(&path, Database::private()).unwrap();
    while call(&client, &[b"SET", b"a", b"1"]).is_err() {
        std::thread::yield_now();
    }
    drop((store, directory));
}

/// Accepts one connection, reads a little, sends `bytes`, and closes when the peer does.
fn impostor(bytes: &'static [u8]) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let bind = Bind::Unix(path.clone());
    let listening = Listening::bind(&bind, 1, &ListenOptions::default()).unwrap();
    let socket = listening.into_sockets().pop().unwrap();
    let main = move || async move {
        let listener = socket.adopt().unwrap();
        let stream = listener.accept().await.unwrap().stream;
        stream.receive().await.unwrap();
        let mut outgoing = net::Outgoing::default();
        outgoing.push(Bytes::from_static(bytes));
        let _ = stream.send_all(&mut outgoing).await;
        while stream.receive().await.is_ok_and(|chunk| !chunk.is_empty()) {}
    };
    drop(worker::spawn("impostor".to_owned(), None, main).unwrap());
    (directory, path)
}

#[test]
fn a_server_that_is_not_a_store_is_abandoned() {
    let table: [(&[u8], StoreError); 5] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", StoreError::Malformed("a reply of an unknown type")),
        (b"%0\r\n,1.5\r\n", StoreError::Malformed("a reply of an unknown type")),
        (b"+OK\r\n>1\r\n+x\r\n", StoreError::Malformed("a message of an unknown type")),
        (
            b"%0\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
            StoreError::Malformed("a channel that was not requested"),
        ),
        (b"%0\r\n", StoreError::Late),
    ];
    for (bytes, expected) in table {
        let (directory, path) = impostor(bytes);
        let timeout = if expected == StoreError::Late { Duration::from_millis(50) } else { LONG };
        let client = Client::with_timeout(&path, timeout).unwrap();
        assert_eq!(call(&client, &[b"PING"]), Err(expected));
        drop(directory);
    }
}

fn redis(path: &std::path::Path) -> Client {
    Client::redis(format!("unix://{}", path.display()).parse().unwrap()).unwrap()
}

#[test]
fn a_redis_server_is_called_like_a_store() {
    let served = Served::new();
    let (client, other) = (redis(&served.path()), redis(&served.path()));
    calls(&client);
    channels(&client, &other);
}

#[test]
fn a_redis_server_that_rejects_the_client_is_named_without_its_password() {
    let (directory, path) = impostor(b"-WRONGPASS invalid username-password pair\r\n");
    let url = format!("unix://ann:hunter2@{}", path.display());
    let client = Client::redis(url.parse().unwrap()).unwrap();
    let failure = call(&client, &[b"PING"]).unwrap_err();
    let expected = format!(
        "unix://{}?db=0 rejects the client: WRONGPASS invalid username-password pair",
        path.display()
    );
    assert_eq!(failure, StoreError::Unreachable(expected));
    drop(directory);
}
