//! Addresses are claimed exclusively, shared by workers, and drained before they are released.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::worker::block_on_local;

fn local() -> Bind {
    Bind::Tcp("127.0.0.1:0".parse().unwrap())
}

#[test]
fn the_unspecified_address_covers_both_families_or_the_only_one() {
    let any: SocketAddr = "[::]:80".parse().unwrap();
    assert!(!tcp_socket(any, &ListenOptions::default()).unwrap().only_v6().unwrap());
    let none = io::Error::from_raw_os_error(Errno::AFNOSUPPORT.raw_os_error());
    assert_eq!(without_v6(any, &none), "0.0.0.0:80".parse().ok());
    assert_eq!(without_v6("[::1]:80".parse().unwrap(), &none), None);
    assert_eq!(without_v6(any, &io::ErrorKind::AddrInUse.into()), None);
}

#[test]
fn an_address_in_use_is_an_error_even_between_reuseport_groups() {
    let first = Listening::bind(&local(), 2, &ListenOptions::default()).unwrap();
    let second = Listening::bind(first.local(), 2, &ListenOptions::default());
    let message = second.err().unwrap().to_string();
    assert!(message.contains("in use"), "{message}");
}

#[test]
fn addresses_overlap_where_the_kernel_has_one_socket_for_both() {
    let bind = |address: &str| Bind::Tcp(address.parse().unwrap());
    for (one, other, overlaps) in [
        ("127.0.0.1:80", "127.0.0.1:80", true),
        ("[::]:80", "127.0.0.1:80", true),
        ("[::]:80", "0.0.0.0:80", true),
        ("[::]:80", "[::1]:80", true),
        ("0.0.0.0:80", "127.0.0.1:80", true),
        ("0.0.0.0:80", "[::1]:80", false),
        ("127.0.0.1:80", "127.0.0.2:80", false),
        ("[::]:80", "127.0.0.1:81", false),
        ("127.0.0.1:0", "127.0.0.1:0", false),
    ] {
        let (one, other) = (bind(one), bind(other));
        assert_eq!((one.overlaps(&other), other.overlaps(&one)), (overlaps, overlaps), "{one}");
        let Bind::Tcp(mut address) = one else { continue };
        address.set_port(0);
        let options = ListenOptions::default();
        // Not every machine has IPv6.
        let Ok(first) = Listening::bind(&Bind::Tcp(address), 1, &options) else { continue };
        if let (Bind::Tcp(bound), Bind::Tcp(mut address), true) = (first.local(), other, overlaps) {
            address.set_port(bound.port());
            let second = Listening::bind(&Bind::Tcp(address), 1, &options);
            assert!(second.is_err(), "{address} next to {bound}");
        }
    }
    let unix = |path: &str| Bind::Unix(path.into());
    assert!(unix("a").overlaps(&unix("a")) && !unix("a").overlaps(&unix("b")));
}

#[test]
fn of_two_simultaneous_binds_one_fails() {
    for _ in 0..50 {
        let free = Listening::bind(&local(), 1, &ListenOptions::default()).unwrap();
        let bind = free.local().clone();
        drop(free);
        let barrier = std::sync::Barrier::new(2);
        let racing = || {
            barrier.wait();
            Listening::bind(&bind, 2, &ListenOptions::default())
        };
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(racing);
            let other = scope.spawn(racing);
            (one.join().unwrap(), other.join().unwrap())
        });
        // Both may fail: against each other, or against another test that was given the port.
        assert!(one.is_err() || other.is_err());
    }
}

#[test]
fn connections_are_spread_over_the_workers() {
    block_on_local(async {
        let listening = Listening::bind(&local(), 2, &ListenOptions::default()).unwrap();
        let Bind::Tcp(address) = *listening.local() else { panic!("TCP was requested") };
        let mut clients = Vec::new();
        for _ in 0..64 {
            clients.push(Stream::connect_tcp(address).await.unwrap());
        }
        let sockets = listening.into_sockets().into_iter();
        let shares: Vec<usize> =
            sockets.map(|socket| socket.adopt().unwrap().drain().unwrap().len()).collect();
        assert_eq!(shares.iter().sum::<usize>(), 64);
        assert!(shares.iter().all(|share| *share > 8), "{shares:?}");
    });
}

#[test]
fn every_worker_has_a_socket_on_the_same_port() {
    let listening = Listening::bind(&local(), 3, &ListenOptions::default()).unwrap();
    assert_eq!(listening.descriptors().len(), 3);
    let Bind::Tcp(address) = listening.local() else { panic!("TCP was requested") };
    assert_ne!(address.port(), 0);
}

#[test]
fn a_stale_unix_socket_is_replaced_and_a_live_one_is_not() {
    let directory = std::env::temp_dir().join(format!("tidegate-net-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let bind = Bind::Unix(directory.join("s.sock"));
    drop(Listening::bind(&bind, 1, &ListenOptions::default()).unwrap());
    let live = Listening::bind(&bind, 1, &ListenOptions::default()).unwrap();
    let refused = Listening::bind(&bind, 1, &ListenOptions::default()).err().unwrap();
    assert_eq!(refused.error.kind(), io::ErrorKind::AddrInUse);
    drop(live);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_drained_listener_loses_no_queued_connection() {
    block_on_local(async {
        let listening = Listening::bind(&local(), 1, &ListenOptions::default()).unwrap();
        let Bind::Tcp(address) = *listening.local() else { panic!("TCP was requested") };
        let listener = listening.into_sockets().remove(0).adopt().unwrap();
        let mut clients = Vec::new();
        for _ in 0..5 {
            clients.push(Stream::connect_tcp(address).await.unwrap());
        }
        assert_eq!(listener.drain().unwrap().len(), 5);
        assert!(clients.iter().all(Stream::is_idle));
    });
}

#[test]
fn nagles_algorithm_is_off_unless_requested() {
    let nodelay = |stream: &Stream| SockRef::from(&stream.socket()).tcp_nodelay().unwrap();
    block_on_local(async {
        for wanted in [true, false] {
            let options = ListenOptions { nodelay: wanted, ..ListenOptions::default() };
            let listening = Listening::bind(&local(), 1, &options).unwrap();
            let Bind::Tcp(address) = *listening.local() else { panic!("TCP was requested") };
            let additional =
                Listening::bind_additional(address, &options).unwrap().adopt().unwrap();
            let first = listening.into_sockets().remove(0).adopt().unwrap();
            // The kernel chooses which of the two sockets gets it.
            let client = Stream::connect_tcp(address).await.unwrap();
            let accepted = poll_fn(|cx| match first.poll_accept(cx) {
                Poll::Pending => additional.poll_accept(cx),
                ready => ready,
            });
            let server = accepted.await.unwrap().stream;
            assert_eq!((nodelay(&server), nodelay(&client)), (wanted, true));
        }
    });
}

#[test]
fn a_unix_socket_is_created_with_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o700] {
        let path = directory.path().join(format!("{mode:o}.sock"));
        let options = ListenOptions { mode: Some(mode), ..ListenOptions::default() };
        let _listening = Listening::bind(&Bind::Unix(path.clone()), 1, &options).unwrap();
        let found = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode);
    }
}
