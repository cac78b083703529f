//! PING with one task for all connections of a worker: `net::Driver`.

use std::future::poll_fn;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use net::{Driver, Event, Interest, Key, Listener, Listening, Stream, Timer, is_exhausted, worker};

use crate::server::Connection;

/// How long accepting pauses when no descriptors are left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Starts the workers, each with one driver.
pub(crate) fn start(listening: Vec<Listening>, workers: usize) -> io::Result<Vec<JoinHandle<()>>> {
    let mut shares: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    for listening in listening {
        for (share, socket) in shares.iter_mut().zip(listening.into_sockets()) {
            share.push(socket);
        }
    }
    let start = |(index, sockets): (usize, Vec<net::BoundSocket>)| {
        worker::spawn(format!("ping-{index}"), None, move || async move {
            let adopted: io::Result<Vec<_>> = sockets.into_iter().map(|s| s.adopt()).collect();
            match adopted {
                Ok(listeners) => drive(listeners).await,
                Err(error) => eprintln!("ping: cannot listen: {error}"),
            }
        })
    };
    shares.into_iter().enumerate().map(start).collect()
}

/// Serves all connections of these listeners for ever.
pub(crate) async fn drive(listeners: Vec<Listener>) {
    let mut driver = Driver::new();
    let mut listener_keys: Vec<Key> = Vec::new();
    for listener in listeners {
        listener_keys.push(driver.listen(listener, Connection::default()));
    }
    let pause = Timer::new();
    loop {
        let next = poll_fn(|cx| {
            if pause.poll(cx).is_ready() {
                pause.clear();
                listener_keys.iter().for_each(|key| driver.set_interest(*key, Interest::READ));
            }
            driver.poll_ready(cx)
        });
        match next.await {
            (_, Event::Accepted(Ok(accepted))) => {
                driver.insert(accepted.stream, Connection::default());
            }
            (key, Event::Accepted(Err(error))) if is_exhausted(&error) => {
                driver.set_interest(key, Interest::NONE);
                pause.set(EXHAUSTED_PAUSE);
            }
            (_, Event::Accepted(Err(_))) => {} // only this connection is lost
            (key, Event::Ready(_)) => {
                let Some((stream, connection)) = driver.stream(key) else { continue };
                match turn(stream, connection) {
                    Ok(Some(interest)) => driver.set_interest(key, interest),
                    Ok(None) | Err(_) => drop(driver.remove(key)),
                }
            }
        }
    }
}

/// Runs one step of a connection: what to wait for next, `None` at its end.
fn turn(stream: &Stream, connection: &mut Connection) -> io::Result<Option<Interest>> {
    // A client that does not read its replies is not read from.
    if connection.replies.is_empty() {
        match stream.try_receive() {
            Ok(chunk) if chunk.is_empty() => return Ok(None),
            Ok(chunk) => connection.handle(chunk),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    match stream.try_send(&mut connection.replies) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
        _ if !connection.replies.is_empty() => return Ok(Some(Interest::WRITE)),
        _ => {}
    }
    Ok((!connection.closing).then_some(Interest::READ))
}
