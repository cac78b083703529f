//! Commands about channels.

use bytes::Bytes;

use super::{Call, CommandError, CommandResult, SYNTAX};
use crate::limits::{CHANNEL_BYTES, CHANNELS_PER_CONNECTION, MESSAGE_BYTES};

impl Call<'_> {
    fn channel(&self, at: usize) -> Result<(), CommandError> {
        let length = self.word(at).len();
        if length == 0 || length > CHANNEL_BYTES {
            return Err(format!("ERR the name of a channel has 1 to {CHANNEL_BYTES} bytes").into());
        }
        Ok(())
    }

    /// Confirms a change of a subscription.
    fn confirm(&mut self, kind: &str, channel: Option<&[u8]>) {
        self.out.push(3);
        self.out.bulk(kind.as_bytes());
        match channel {
            Some(channel) => self.out.bulk(channel),
            None => self.out.nil(),
        }
        self.out.count(self.session.channels.len());
    }
}

pub(super) fn publish(call: &mut Call<'_>) -> CommandResult {
    call.channel(1)?;
    let (channel, message) = (call.word(1), call.word(2));
    let text = call.is_word(3, "TEXT");
    if call.len() == 4 && !text {
        return Err(SYNTAX);
    }
    if message.len() > MESSAGE_BYTES {
        return Err(format!("ERR a message has at most {MESSAGE_BYTES} bytes").into());
    }
    if text && std::str::from_utf8(message).is_err() {
        return Err("ERR the message is not UTF-8".into());
    }
    let delivered = call.state.pubsub.publish(channel, Bytes::copy_from_slice(message), text);
    call.metrics.published.inc();
    call.out.count(delivered.reached);
    Ok(())
}

pub(super) fn subscribe(call: &mut Call<'_>) -> CommandResult {
    for at in 1..call.len() {
        call.channel(at)?;
    }
    if call.session.channels.len() + call.len() - 1 > CHANNELS_PER_CONNECTION {
        let max = CHANNELS_PER_CONNECTION;
        return Err(format!("ERR a connection subscribes to at most {max} channels").into());
    }
    for at in 1..call.len() {
        let channel = call.word(at);
        if call.state.pubsub.subscribe(channel, &call.session.queue) {
            call.session.channels.insert(Bytes::copy_from_slice(channel));
        }
        call.confirm("subscribe", Some(channel));
    }
    Ok(())
}

/// Without an argument, unsubscribes from all channels.
pub(super) fn unsubscribe(call: &mut Call<'_>) -> CommandResult {
    let named = (1..call.len()).map(|at| Bytes::copy_from_slice(call.word(at)));
    let mut channels: Vec<Bytes> = named.collect();
    if channels.is_empty() {
        channels = call.session.channels.iter().cloned().collect();
    }
    if channels.is_empty() {
        call.confirm("unsubscribe", None);
    }
    for channel in channels {
        call.state.pubsub.unsubscribe(&channel, &call.session.queue);
        call.session.channels.remove(&channel);
        call.confirm("unsubscribe", Some(&channel));
    }
    Ok(())
}
