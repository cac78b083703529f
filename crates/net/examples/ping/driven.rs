//! PING with one task for all connections of a worker: `net::Driver`.

use std::future::poll_fn;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use net::{Driver, Event, Interest, Key, Listener, Listening, Stream, Timer, is_exhausted, worker};

use crate::server::Conversation;

/// How long nothing is accepted when there are no descriptors left.
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

/// Serves all connections of these listeners, for ever.
pub(crate) async fn drive(listeners: Vec<Listener>) {
    let mut driver = Driver::new();
    let mut doors: Vec<Key> = Vec::new();
    for listener in listeners {
        doors.push(driver.listen(listener, Conversation::default()));
    }
    let rest = Timer::new();
    loop {
        let next = poll_fn(|cx| {
            if rest.poll(cx).is_ready() {
                rest.clear();
                doors.iter().for_each(|door| driver.set_interest(*door, Interest::READ));
            }
            driver.poll_ready(cx)
        });
        match next.await {
            (_, Event::Accepted(Ok(accepted))) => {
                driver.insert(accepted.stream, Conversation::default());
            }
            (door, Event::Accepted(Err(error))) if is_exhausted(&error) => {
                driver.set_interest(door, Interest::NONE);
                rest.set(EXHAUSTED_PAUSE);
            }
            (_, Event::Accepted(Err(_))) => {} // that connection is gone, the others are not
            (key, Event::Ready(_)) => {
                let Some((stream, conversation)) = driver.stream(key) else { continue };
                match turn(stream, conversation) {
                    Ok(Some(interest)) => driver.set_interest(key, interest),
                    Ok(None) | Err(_) => drop(driver.remove(key)),
                }
            }
        }
    }
}

/// One turn of a conversation: what to wait for next, `None` when it is over.
fn turn(stream: &Stream, conversation: &mut Conversation) -> io::Result<Option<Interest>> {
    // A client that does not read its replies is not read either.
    if conversation.replies.is_empty() {
        match stream.try_receive() {
            Ok(chunk) if chunk.is_empty() => return Ok(None),
            Ok(chunk) => conversation.hear(chunk),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    match stream.try_send(&mut conversation.replies) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
        _ if !conversation.replies.is_empty() => return Ok(Some(Interest::WRITE)),
        _ => {}
    }
    Ok((!conversation.over).then_some(Interest::READ))
}
