//! Requests of a client.

use super::{Connection, Field, GoingAway, Payload, Stream, StreamKey};
use crate::Method;

/// The pseudo-header fields of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    pub method: &'a Method,
    /// The scheme is https.
    pub secure: bool,
    pub authority: &'a [u8],
    pub path: &'a [u8],
    /// Of an extended CONNECT (RFC 8441 4), whose data is a tunnel.
    pub protocol: Option<&'a [u8]>,
}

/// The connection takes no further request, now or at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The peer allows no more streams at once.
    Busy,
    /// The connection ends, or its stream numbers are used up.
    Ending,
    /// The peer does not support extended CONNECT.
    NoExtendedConnect,
}

impl<P: Payload> Connection<P> {
    /// Whether a request can be sent.
    pub fn can_open(&self) -> Result<(), Unavailable> {
        let is_ending = self.peer_went_away
            || self.going_away != GoingAway::No
            || self.violation.is_some()
            || self.next_stream > 0x7fff_ffff;
        if is_ending {
            return Err(Unavailable::Ending);
        }
        if self.streams.len() >= self.peer.max_streams as usize {
            return Err(Unavailable::Busy);
        }
        Ok(())
    }

    /// Sends the head of a request, whole if `ends`.
    pub fn request<'a>(
        &mut self,
        line: RequestLine<'_>,
        fields: impl IntoIterator<Item = Field<'a>>,
        ends: bool,
    ) -> Result<StreamKey, Unavailable> {
        self.can_open()?;
        if line.protocol.is_some() && !self.peer.extended_connect {
            return Err(Unavailable::NoExtendedConnect);
        }
        let id = self.next_stream;
        self.next_stream += 2;
        let window = self.config.stream_window();
        let mut stream = Stream::new(id, self.peer.stream_window, window);
        stream.to_head = *line.method == Method::Head;
        stream.ends_separately = line.protocol.is_some();
        let key = self.streams.insert(stream);
        self.write_head(key, ends, fields, |encoder, out| {
            encoder.method(out, line.method.as_bytes());
            encoder.scheme(out, line.secure);
            encoder.authority(out, line.authority);
            encoder.path(out, line.path);
            if let Some(protocol) = line.protocol {
                encoder.protocol(out, protocol);
            }
        });
        self.head_sent(key, ends);
        Ok(key)
    }
}
