//! Encodes commands and decodes replies.

use bytes::Bytes;
use wire::resp;
use wire::resp::reply::{Item, Reader};

use crate::client::StoreError;
use crate::limits::{ARGUMENTS, COMMAND_BYTES, LINE_BYTES, REPLY_BYTES, VALUE_BYTES};

pub(super) const LIMITS: resp::reply::Limits =
    resp::reply::Limits { line: LINE_BYTES, bytes: REPLY_BYTES, items: 1 << 20, depth: 8 };

/// Commands that are sent together.
#[derive(Debug, Default)]
pub struct Request {
    bytes: Vec<u8>,
    commands: usize,
    /// Offset of the last command.
    start: usize,
    refusal: Option<&'static str>,
}

impl Request {
    /// Begins a command of `arguments` arguments, which follow.
    pub fn begin(&mut self, arguments: usize) {
        if arguments > ARGUMENTS {
            self.refusal = Some("a command has at most 1024 arguments");
        }
        self.start = self.bytes.len();
        self.commands += 1;
        resp::array_head(arguments, &mut self.bytes);
    }

    /// Appends the next argument of the current command.
    pub fn argument(&mut self, argument: &[u8]) {
        // A command that makes the store close the connection is not sent: the connection is
        // shared.
        if argument.len() > VALUE_BYTES {
            self.refusal = Some("a value has at most 8388608 bytes");
        } else if self.bytes.len() - self.start + argument.len() > COMMAND_BYTES {
            self.refusal = Some("the command is too large for the store");
        } else {
            resp::bulk(argument, &mut self.bytes);
        }
    }

    /// Appends a command.
    pub fn command(&mut self, arguments: &[&[u8]]) {
        self.begin(arguments.len());
        arguments.iter().for_each(|argument| self.argument(argument));
    }

    /// Why the request cannot be sent.
    pub(super) fn refusal(&self) -> Option<StoreError> {
        self.refusal.map(StoreError::Refused)
    }

    /// A request of one command.
    pub fn of(arguments: &[&[u8]]) -> Request {
        let mut request = Request::default();
        request.command(arguments);
        request
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn commands(&self) -> usize {
        self.commands
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A reply of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    Integer(i64),
    Bytes(Bytes),
    /// UTF-8 if a Tidegate client stored it.
    Text(Bytes),
    /// `+OK`.
    Ok,
    /// An error reply of the store.
    Refused(String),
    List(Vec<Reply>),
    /// A message out of band.
    Push(Vec<Reply>),
}

/// Decodes the reply in `bytes` that `reader` has just read.
pub fn decode(bytes: &[u8], reader: &Reader) -> Result<Reply, StoreError> {
    let mut items = reader.items().iter();
    decode_item(bytes, &mut items).ok_or(StoreError::Malformed("a reply of an unknown type"))
}

fn decode_item(bytes: &[u8], items: &mut std::slice::Iter<'_, Item>) -> Option<Reply> {
    let many = |items: &mut std::slice::Iter<'_, Item>, count: usize| {
        (0..count).map(|_| decode_item(bytes, items)).collect::<Option<Vec<Reply>>>()
    };
    Some(match items.next()? {
        Item::Null => Reply::Nothing,
        Item::Integer(number) => Reply::Integer(*number),
        Item::Error(range) => {
            Reply::Refused(String::from_utf8_lossy(bytes.get(range.clone())?).into_owned())
        }
        Item::Text(range) => {
            let text = Bytes::copy_from_slice(bytes.get(range.clone())?);
            // The byte before the text tells its type: the type byte of a simple string, the format
            // of a verbatim string, or the end of a length.
            match range.start.checked_sub(1).and_then(|before| bytes.get(before))? {
                b'+' => Reply::Ok,
                b':' => Reply::Text(text),
                _ => Reply::Bytes(text),
            }
        }
        Item::Array(count) => Reply::List(many(items, *count)?),
        Item::Push(count) => Reply::Push(many(items, *count)?),
        Item::Map(pairs) => Reply::List(many(items, pairs.checked_mul(2)?)?),
        Item::Double(_) | Item::Boolean(_) | Item::Set(_) => return None,
    })
}

/// Decodes one reply for each command.
pub(super) fn read_all(mut bytes: &[u8], commands: usize) -> Result<Vec<Reply>, StoreError> {
    let mut reader = Reader::default();
    let mut replies = Vec::with_capacity(commands);
    while replies.len() < commands {
        let read =
            reader.read(bytes, &LIMITS).map_err(|fault| StoreError::Malformed(fault.text()))?;
        let length = read.ok_or(StoreError::Refused("the command is too large for the store"))?;
        replies.push(decode(bytes, &reader)?);
        bytes = &bytes[length..];
    }
    Ok(replies)
}
