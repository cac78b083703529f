//! Received control frames (RFC 9113 6.3 to 6.9, RFC 9218 7).

use super::data::StreamFault;
use super::headers::check_dependency;
use super::{Connection, ErrorCode, Event, GoingAway, Payload, Sending, StreamKey};
use crate::h2::code::Violation;
use crate::h2::frame::{self, FrameHeader};
use crate::h2::priority::Priority;
use crate::h2::settings::WINDOW_MAX;

/// The PING whose acknowledgement tells that the peer knows of the GOAWAY before it.
pub(super) const SHUT_DOWN_PING: &[u8; 8] = b"shutdown";

impl<P: Payload> Connection<P> {
    pub(super) fn control_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event>, Violation> {
        match header.kind {
            frame::WINDOW_UPDATE => self.window_update(header.stream, fixed(payload)?),
            frame::RST_STREAM => self.rst_stream(header.stream, fixed(payload)?),
            frame::SETTINGS => self.settings(header, payload),
            frame::PING => self.ping(header, fixed(payload)?),
            frame::GOAWAY => self.goaway(header, payload),
            frame::PRIORITY => {
                self.budgets.control(Violation::PriorityFlood)?;
                if header.stream == 0 {
                    return Err(Violation::InvalidStream);
                }
                check_dependency(header.stream, fixed(payload)?)?;
                Ok(None)
            }
            frame::PRIORITY_UPDATE => self.priority_update(header, payload),
            // Push is switched off by this side's settings, and clients never push.
            frame::PUSH_PROMISE => Err(Violation::PushPromise),
            // RFC 9113 5.5: unknown frames are ignored.
            _ => self.budgets.control(Violation::UnknownFrames).map(|()| None),
        }
    }

    fn settings(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event>, Violation> {
        if header.stream != 0 {
            return Err(Violation::InvalidStream);
        }
        if header.has(frame::ACK) {
            self.budgets.control(Violation::SettingsFlood)?;
            return if payload.is_empty() { Ok(None) } else { Err(Violation::InvalidFrameSize) };
        }
        self.budgets.control(Violation::SettingsFlood)?;
        let before = i64::from(self.peer.stream_window);
        self.peer.apply(payload, !self.is_server)?;
        self.encoder.set_max(self.peer.header_table);
        let change = i64::from(self.peer.stream_window) - before;
        if change != 0 {
            self.change_windows(change)?;
        }
        frame::write(&mut self.out, frame::SETTINGS, frame::ACK, 0, b"");
        Ok(None)
    }

    /// RFC 9113 6.9.2: a changed initial window applies to streams that are open.
    fn change_windows(&mut self, change: i64) -> Result<(), Violation> {
        let mut opened = Vec::new();
        for (key, stream) in self.streams.iter_mut() {
            stream.send_window += change;
            if stream.send_window > WINDOW_MAX {
                return Err(Violation::WindowOverflow);
            }
            if stream.pending.is_some() && !stream.is_scheduled && stream.send_window > 0 {
                opened.push(key);
            }
        }
        for key in opened {
            self.schedule(key);
        }
        Ok(())
    }

    fn ping(&mut self, header: FrameHeader, payload: &[u8; 8]) -> Result<Option<Event>, Violation> {
        if header.stream != 0 {
            return Err(Violation::InvalidStream);
        }
        self.budgets.control(Violation::PingFlood)?;
        if !header.has(frame::ACK) {
            frame::write(&mut self.out, frame::PING, frame::ACK, 0, payload);
        } else if payload == SHUT_DOWN_PING && self.going_away == GoingAway::Announced {
            self.close_to_new_streams();
        }
        Ok(None)
    }

    fn goaway(&mut self, header: FrameHeader, payload: &[u8]) -> Result<Option<Event>, Violation> {
        self.budgets.control(Violation::GoawayFlood)?;
        if header.stream != 0 {
            return Err(Violation::InvalidStream);
        }
        let &[l0, l1, l2, l3, c0, c1, c2, c3, ..] = payload else {
            return Err(Violation::InvalidFrameSize);
        };
        let last = u32::from_be_bytes([l0, l1, l2, l3]) & 0x7fff_ffff;
        let code = ErrorCode(u32::from_be_bytes([c0, c1, c2, c3]));
        self.peer_went_away = true;
        if !self.is_server {
            let above = |(key, _): (StreamKey, _)| (key.id > last).then_some(key);
            let unprocessed: Vec<StreamKey> = self.streams.iter_mut().filter_map(above).collect();
            for stream in unprocessed {
                self.remove(stream);
                let code = ErrorCode::REFUSED_STREAM;
                let event = Event::Reset { stream, code, by_peer: true, unprocessed: true };
                self.events.push_back(event);
            }
        }
        Ok(Some(Event::GoAway { code }))
    }

    fn rst_stream(&mut self, id: u32, payload: &[u8; 4]) -> Result<Option<Event>, Violation> {
        if id == 0 {
            return Err(Violation::InvalidStream);
        }
        if self.is_idle(id) {
            return Err(Violation::IdleStream);
        }
        let Some(stream) = self.streams.find(id) else {
            self.budgets.control(Violation::ResetFlood)?;
            return Ok(None);
        };
        if self.is_server {
            self.budgets.reset()?;
        }
        self.remove(stream);
        let code = ErrorCode(u32::from_be_bytes(*payload));
        let unprocessed = code == ErrorCode::REFUSED_STREAM;
        Ok(Some(Event::Reset { stream, code, by_peer: true, unprocessed }))
    }

    fn window_update(&mut self, id: u32, payload: &[u8; 4]) -> Result<Option<Event>, Violation> {
        self.budgets.control(Violation::WindowFlood)?;
        let increment = i64::from(u32::from_be_bytes(*payload) & 0x7fff_ffff);
        if id == 0 {
            if increment == 0 {
                return Err(Violation::ZeroWindowUpdate);
            }
            self.send_window += increment;
            let is_valid = self.send_window <= WINDOW_MAX;
            return if is_valid { Ok(None) } else { Err(Violation::WindowOverflow) };
        }
        if self.is_idle(id) {
            return Err(Violation::IdleStream);
        }
        let Some(key) = self.streams.find(id) else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        stream.send_window += increment;
        let code = match increment {
            0 => ErrorCode::PROTOCOL_ERROR,
            _ if stream.send_window > WINDOW_MAX => ErrorCode::FLOW_CONTROL_ERROR,
            _ => {
                if stream.sending != Sending::Ended {
                    self.schedule(key);
                }
                return Ok(None);
            }
        };
        self.fail_stream(key, StreamFault::Code(code))
    }

    fn priority_update(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<Option<Event>, Violation> {
        self.budgets.control(Violation::PriorityFlood)?;
        let (id, value) = payload.split_first_chunk::<4>().ok_or(Violation::InvalidFrameSize)?;
        let id = u32::from_be_bytes(*id) & 0x7fff_ffff;
        // RFC 9218 7.1: from clients, on stream 0, for a request.
        if !self.is_server || header.stream != 0 || id & 1 == 0 {
            return Err(Violation::InvalidPriority);
        }
        self.prioritize(id, Priority::parse(value));
        Ok(None)
    }
}

/// A payload of the length that its type has.
fn fixed<const N: usize>(payload: &[u8]) -> Result<&[u8; N], Violation> {
    payload.try_into().map_err(|_| Violation::InvalidFrameSize)
}
