//! Clients and processes that disappear, and peers that send malformed frames.

use net::task::spawn_local;
use net::{Bind, ListenOptions, Listening, Outgoing, Stream};
use wire::frames::{self, Decoder, Frame, Kind};

use super::*;
use crate::mux::PROGRAM;

#[test]
fn the_application_learns_that_the_client_has_gone() {
    let process = Process::start();
    block_on_local(async {
        let remote = super::remote(slots(&[&process]));
        let local = offer(&remote, request("/hold", Body::Empty)).unwrap();
        let streaming = ask(&remote, "/hold-streaming", Body::Empty).await.unwrap();
        assert_eq!(process.said().await, "held");
        drop(local);
        assert_eq!(process.said().await, "unwanted");
        drop(streaming);
        assert_eq!(process.said().await, "unwanted");
        assert_eq!(text(ask(&remote, "/echo", "on").await).await, "on");
    });
}

#[test]
fn a_dead_process_fails_its_exchanges_and_the_next_takes_over() {
    let mut process = Process::start();
    let next = Process::start();
    block_on_local(async {
        let live = slots(&[&process]);
        let remote = super::remote(live.clone());
        let mut streaming = ask(&remote, "/endless", Body::Empty).await.unwrap();
        let held = offer(&remote, request("/hold", Body::Empty)).unwrap();
        assert_eq!(text(ask(&remote, "/echo", "one").await).await, "one");
        assert_eq!(process.said().await, "held");
        process.die();
        let fault = held.await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (502, "connection_terminated"));
        let fault = streaming.body.collect(u64::MAX).await.unwrap_err();
        assert_eq!(fault.slug(), "connection_terminated");
        assert_eq!(remote.pool.broken.gone.get(), 1);
        // New exchanges wait for the next process.
        let waiting = offer(&remote, request("/echo", "two".into())).unwrap();
        live.set(vec![next.slot()]);
        assert_eq!(text(waiting.await).await, "two");
    });
}

#[test]
fn a_draining_process_finishes_its_exchanges_and_gets_no_new_ones() {
    let process = Process::start();
    let next = Process::start();
    block_on_local(async {
        let live = slots(&[&process]);
        let remote = super::remote(live.clone());
        let mut streaming = ask(&remote, "/endless", Body::Empty).await.unwrap();
        process.begin_to_drain();
        // The drain is known once the connection is not open any more.
        while remote.pool.choose().is_some() {
            net::timer::sleep(Duration::from_millis(1)).await;
        }
        let waiting = offer(&remote, request("/echo", "new".into())).unwrap();
        live.set(vec![next.slot()]);
        assert_eq!(text(waiting.await).await, "new");
        assert_eq!((next.seen(), process.seen()), (1, 1));
        let mut taken = 0;
        while taken < 3_000_000 {
            let frame = streaming.body.frame().await.unwrap().unwrap();
            let message::Frame::Data(data) = frame else { panic!("data was expected") };
            taken += data.len();
        }
        assert!(!process.has_ended());
        drop(streaming);
        while !process.has_ended() {
            net::timer::sleep(Duration::from_millis(1)).await;
        }
    });
}

/// A process scripted by the test.
struct ScriptedProcess {
    listening: net::Listener,
    slot: LiveWorker,
}

impl ScriptedProcess {
    fn new() -> ScriptedProcess {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("tidegate-stranger-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listening =
            Listening::bind(&Bind::Unix(path.clone()), 1, &ListenOptions::default()).unwrap();
        let listening = listening.into_sockets().remove(0).adopt().unwrap();
        ScriptedProcess { listening, slot: LiveWorker { slot: 0, generation: 1, path } }
    }

    async fn accept(&self) -> Stream {
        self.listening.accept().await.unwrap().stream
    }
}

impl Drop for ScriptedProcess {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.slot.path);
    }
}

async fn send(stream: &Stream, bytes: Vec<u8>) {
    let mut outgoing = Outgoing::default();
    outgoing.push(bytes.into());
    // The other end may have closed already.
    let _ = stream.send_all(&mut outgoing).await;
}

async fn read_to_end(stream: &Stream) -> Vec<u8> {
    let mut all = Vec::new();
    while let Ok(bytes) = stream.receive().await {
        if bytes.is_empty() {
            break;
        }
        all.extend_from_slice(&bytes);
    }
    all
}

fn hello(program: &str) -> Vec<u8> {
    let mut out = Vec::new();
    frames::hello(&mut out, 64 * 1024, program);
    out
}

#[test]
fn a_process_of_another_version_is_given_nothing() {
    block_on_local(async {
        let stranger = ScriptedProcess::new();
        let live = slots(&[]);
        live.set(vec![stranger.slot.clone()]);
        let remote = super::remote(live);
        let malformed = remote.pool.broken.malformed.clone();
        let waiting = spawn_local(async move { ask(&remote, "/echo", "x").await.err() });
        let stream = stranger.accept().await;
        send(&stream, hello("0.0.0-other")).await;
        let said = read_to_end(&stream).await;
        let mut input = &said[..];
        let mut decoder = Decoder::new();
        assert!(matches!(decoder.next(&mut input), Ok(Some(Frame::Hello { .. }))));
        assert!(input.is_empty(), "only the greeting has come");
        // The gateway reconnects, and this process has its version.
        let stream = stranger.accept().await;
        send(&stream, hello(PROGRAM)).await;
        let mut decoder = Decoder::new();
        let mut said = Vec::new();
        let number = 'read: loop {
            said.extend_from_slice(&stream.receive().await.unwrap());
            let mut input = &said[..];
            while let Ok(Some(frame)) = decoder.next(&mut input) {
                if let Frame::Request { stream, .. } = frame {
                    break 'read stream;
                }
            }
            said.clear();
        };
        // A frame that only a gateway may send.
        let mut out = Vec::new();
        frames::bare(&mut out, Kind::Cancel, number);
        send(&stream, out).await;
        read_to_end(&stream).await;
        let fault = waiting.await.unwrap().unwrap();
        assert_eq!((fault.status, fault.slug()), (502, "connection_terminated"));
        assert_eq!(malformed.get(), 2);
    });
}

#[test]
fn a_gateway_with_malformed_frames_is_closed_and_its_exchanges_are_cancelled() {
    let process = Process::start();
    block_on_local(async {
        let connect = || async { Stream::connect_unix(&process.slot().path).await.unwrap() };
        let mut head = Vec::new();
        let sent = request("/hold", Body::Empty);
        leave(&mut { sent }, LIMITS).0.head.encode(&mut head);
        let begin = |number: u32| {
            let mut out = hello(PROGRAM);
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&head);
            frames::headed(&mut out, Kind::Request, number, true, 0, write).unwrap();
            out
        };
        let mut again = begin(5000);
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&head);
        frames::headed(&mut again, Kind::Request, 5000, true, 0, write).unwrap();
        let mut garbage = begin(5001);
        garbage.extend_from_slice(&[0xFF; 100]);
        let mut no_head = hello(PROGRAM);
        frames::headed(&mut no_head, Kind::Request, 5000, true, 0, |out| out.push(9)).unwrap();
        let mut answer = begin(5002);
        frames::plain(&mut answer, Kind::Inform, 5002, |_| ()).unwrap();
        for (bytes, holds) in [(again, true), (garbage, true), (no_head, false), (answer, true)] {
            let stream = connect().await;
            send(&stream, bytes).await;
            read_to_end(&stream).await;
            if holds {
                assert_eq!((process.said().await, process.said().await), ("held", "unwanted"));
            }
        }
        for strange in [hello("other"), b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
            let stream = connect().await;
            send(&stream, strange).await;
            read_to_end(&stream).await;
        }
    });
    assert_eq!(process.seen(), 3);
}
