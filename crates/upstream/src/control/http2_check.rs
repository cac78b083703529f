//! The request of a health check over HTTP/2.

use bytes::Bytes;
use net::{Outgoing, Stream};
use wire::h2::{Connection, Event, Field, Output, RequestLine};
use wire::{Known, Method};

use crate::settings::StatusRange;

/// Collects what a connection sends.
struct SendQueue<'a>(&'a mut Outgoing);

impl Output<Bytes> for SendQueue<'_> {
    fn frames(&mut self, bytes: &mut Vec<u8>) {
        self.0.push(Bytes::from(std::mem::take(bytes)));
    }

    fn payload(&mut self, payload: Bytes) {
        self.0.push(payload);
    }
}

/// Sends a GET and reads the status of its response.
pub(super) async fn exchange(
    stream: &Stream,
    host: &str,
    path: &str,
    expected: StatusRange,
) -> Result<(), String> {
    let mut connection: Connection<Bytes> = Connection::client(wire::h2::Config::default());
    let line = RequestLine {
        method: &Method::Get,
        secure: stream.tls().is_some(),
        authority: host.as_bytes(),
        path: path.as_bytes(),
        protocol: None,
    };
    let agent =
        Field { known: Some(Known::UserAgent), name: b"user-agent", value: b"tidegate-health" };
    let opened = connection.request(line, [agent], true);
    opened.map_err(|_| "the connection takes no request".to_owned())?;
    loop {
        let mut outgoing = Outgoing::default();
        connection.write(&mut SendQueue(&mut outgoing), usize::MAX);
        stream.send_all(&mut outgoing).await.map_err(broken)?;
        let chunk = stream.receive().await.map_err(broken)?;
        if chunk.is_empty() {
            return Err("the connection was closed before a response".to_owned());
        }
        connection.receive(chunk);
        while let Some(event) = connection.poll_event().map_err(|violation| violation.text())? {
            match event {
                Event::Response { status, .. } if status < 200 => {}
                Event::Response { status, .. } if expected.contains(status) => return Ok(()),
                Event::Response { status, .. } => return Err(format!("the response was {status}")),
                Event::Malformed { reject, .. } => {
                    return Err(format!("the response is malformed: {reject}"));
                }
                Event::Reset { code, .. } | Event::GoAway { code } => {
                    return Err(format!("the server ended the exchange: {code:?}"));
                }
                _ => {}
            }
        }
    }
}

/// The reason for the log if the connection fails.
pub(super) fn broken(error: std::io::Error) -> String {
    format!("the connection failed: {error}")
}
