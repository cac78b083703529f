//! Clients of a store in this process and of one behind a socket: the same calls, the same answers.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use net::{Bind, ListenOptions, Listening, worker};
use tempfile::TempDir;

use super::{Answer, Client, Failure, Outcome, Request, Subscription};
use crate::limits::VALUE_BYTES;
use crate::mailbox::Shut;
use crate::server::Store;
use crate::space::Space;

const LONG: Duration = Duration::from_secs(60);

struct Served {
    store: Store,
    folder: TempDir,
}

impl Served {
    fn new() -> Served {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::start(&folder.path().join("store"), Space::private()).unwrap();
        Served { store, folder }
    }

    fn client(&self) -> Client {
        Client::there(self.store.path()).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.store.path().to_owned()
    }
}

fn call(client: &Client, words: &[&[u8]]) -> Outcome {
    client.start(Request::of(words)).within(LONG).expect("an answer")
}

fn bytes(text: &'static str) -> Answer {
    Answer::Bytes(Bytes::from_static(text.as_bytes()))
}

fn listen(client: &Client, channels: &[&str]) -> Subscription {
    let channels: Vec<Vec<u8>> = channels.iter().map(|name| name.as_bytes().to_vec()).collect();
    let (subscription, begun) = client.listen(&channels);
    assert_eq!(begun.within(LONG), Some(Ok(Vec::new())));
    subscription
}

fn heard(subscription: &Subscription) -> (String, String, bool) {
    let message = subscription.mailbox().take_within(LONG).unwrap().expect("a message");
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    (text(&message.channel), text(&message.payload), message.text)
}

fn calls(client: &Client) {
    assert_eq!(call(client, &[b"SET", b"a", b"1"]), Ok(vec![Answer::Done]));
    assert_eq!(call(client, &[b"SET", b"t", b"yes", b"TEXT"]), Ok(vec![Answer::Done]));
    let mut many = Request::default();
    many.command(&[b"MGET", b"a", b"t", b"x"]);
    many.command(&[b"INCR", b"n"]);
    many.command(&[b"GET", b"n"]);
    many.command(&[b"NONSENSE"]);
    let text = Answer::Text(Bytes::from_static(b"yes"));
    let expected = vec![
        Answer::List(vec![bytes("1"), text, Answer::Nothing]),
        Answer::Integer(1),
        Answer::Integer(1),
        Answer::Refused("ERR unknown command 'NONSENSE'".to_owned()),
    ];
    assert_eq!(client.start(many).within(LONG), Some(Ok(expected)));
    let large = vec![b'x'; 3 << 20];
    assert_eq!(call(client, &[b"SET", b"large", &large]), Ok(vec![Answer::Done]));
    assert_eq!(call(client, &[b"GET", b"large"]), Ok(vec![Answer::Bytes(large.into())]));
    let whole = vec![b'x'; VALUE_BYTES];
    assert_eq!(call(client, &[b"SET", b"large", &whole, b"TEXT"]), Ok(vec![Answer::Done]));
    let fits = call(client, &[b"MSET", b"a", &whole, b"b", &whole[..VALUE_BYTES - 100]]);
    assert_eq!(fits, Ok(vec![Answer::Done]));
    let too_large: [&[&[u8]]; 3] = [
        &[b"SET", b"a", &[&whole[..], b"x"].concat()],
        &[b"MSET", b"a", &whole, b"b", &whole, b"c", b""],
        &[&b"GET"[..]; 1025],
    ];
    for words in too_large {
        assert!(matches!(call(client, words), Err(Failure::Refused(_))));
    }
    assert_eq!(call(client, &[b"DEL", b"a", b"b", b"large"]), Ok(vec![Answer::Integer(3)]));
}

fn channels(client: &Client, other: &Client) {
    let (one, two) = (listen(client, &["a", "b"]), listen(client, &["b"]));
    call(other, &[b"PUBLISH", b"a", b"1"]).unwrap();
    call(other, &[b"PUBLISH", b"b", b"2", b"TEXT"]).unwrap();
    assert_eq!(heard(&one), ("a".into(), "1".into(), false));
    assert_eq!(heard(&one), ("b".into(), "2".into(), true));
    assert_eq!(heard(&two), ("b".into(), "2".into(), true));
    drop(one);
    call(other, &[b"PUBLISH", b"b", b"3"]).unwrap();
    assert_eq!(heard(&two), ("b".into(), "3".into(), false));
    drop(two);
    // Comes and goes faster than it is confirmed: what counts is what was asked for last.
    for _ in 0..20 {
        drop(client.subscribe(&[b"b".to_vec()], |_| ()));
    }
    let last = listen(client, &["b"]);
    call(other, &[b"PUBLISH", b"b", b"4"]).unwrap();
    assert_eq!(heard(&last), ("b".into(), "4".into(), false));
    let (refused, begun) = client.listen(&[Vec::new()]);
    assert!(matches!(begun.within(LONG), Some(Err(Failure::Refused(_)))));
    drop(refused);
}

#[test]
fn a_store_in_this_process() {
    let space = Space::private();
    let (one, other) = (Client::here(space.clone()), Client::here(space));
    calls(&one);
    channels(&one, &other);
}

#[test]
fn a_store_behind_a_socket() {
    let served = Served::new();
    let (one, other) = (served.client(), served.client());
    calls(&one);
    channels(&one, &other);
    assert_eq!(call(&other, &[b"GET", b"n"]), Ok(vec![Answer::Integer(1)]));
}

#[test]
fn many_threads_get_their_own_answers() {
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
                    let answers = client.start(request).within(LONG).unwrap().unwrap();
                    assert_eq!(answers[1], Answer::Bytes(Bytes::copy_from_slice(&value)));
                }
            });
        }
    });
    assert_eq!(call(&client, &[b"GET", b"all"]), Ok(vec![Answer::Integer(1000)]));
}

#[test]
fn a_store_that_ends_is_noticed_and_one_that_comes_back_is_used() {
    let served = Served::new();
    let (client, path) = (served.client(), served.path());
    let subscription = listen(&client, &["a"]);
    let Served { store, folder } = served;
    drop(store);
    let shut = loop {
        match subscription.mailbox().take_within(LONG) {
            Err(shut) => break shut,
            Ok(message) => assert_eq!(message, None, "nobody published anything"),
        }
    };
    assert_eq!(shut, Shut::Lost);
    let failure = call(&client, &[b"PING"]).unwrap_err();
    assert!(matches!(failure, Failure::Unreachable(_)), "{failure}");
    let store = Store::start(&path, Space::private()).unwrap();
    while call(&client, &[b"SET", b"a", b"1"]).is_err() {
        std::thread::yield_now();
    }
    drop((store, folder));
}

/// Takes one connection, reads a little, says something, and hangs up when the other side does.
fn impostor(says: &'static [u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let bind = Bind::Unix(path.clone());
    let listening = Listening::bind(&bind, 1, &ListenOptions::default()).unwrap();
    let socket = listening.into_sockets().pop().unwrap();
    let main = move || async move {
        let listener = socket.adopt().unwrap();
        let stream = listener.accept().await.unwrap().stream;
        stream.receive().await.unwrap();
        let mut outgoing = net::Outgoing::default();
        outgoing.push(Bytes::from_static(says));
        let _ = stream.send_all(&mut outgoing).await;
        while stream.receive().await.is_ok_and(|chunk| !chunk.is_empty()) {}
    };
    drop(worker::spawn("impostor".to_owned(), None, main).unwrap());
    (folder, path)
}

#[test]
fn what_is_no_store_is_given_up() {
    let table: [(&[u8], Failure); 5] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Failure::Malformed("a reply of an unknown type")),
        (b"%0\r\n,1.5\r\n", Failure::Malformed("an answer of an unknown kind")),
        (b"+OK\r\n>1\r\n+x\r\n", Failure::Malformed("a message of an unknown kind")),
        (
            b"%0\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n",
            Failure::Malformed("a channel that was not asked for"),
        ),
        (b"%0\r\n", Failure::Late),
    ];
    for (says, expected) in table {
        let (folder, path) = impostor(says);
        let patience = if expected == Failure::Late { Duration::from_millis(50) } else { LONG };
        let client = Client::patient(&path, patience).unwrap();
        assert_eq!(call(&client, &[b"PING"]), Err(expected));
        drop(folder);
    }
}
