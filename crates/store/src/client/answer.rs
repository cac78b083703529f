//! Commands as they are sent, answers as they are read.

use bytes::Bytes;
use wire::resp;
use wire::resp::reply::{Item, Reader};

use crate::client::Failure;
use crate::limits::{ARGUMENTS, COMMAND_BYTES, LINE_BYTES, REPLY_BYTES, VALUE_BYTES};

pub(super) const LIMITS: resp::reply::Limits =
    resp::reply::Limits { line: LINE_BYTES, bytes: REPLY_BYTES, items: 1 << 20, depth: 8 };

/// Commands that go out together.
#[derive(Debug, Default)]
pub struct Request {
    bytes: Vec<u8>,
    commands: usize,
    /// Where the last command begins.
    begun: usize,
    refusal: Option<&'static str>,
}

impl Request {
    /// One more command, of so many words, which follow.
    pub fn begin(&mut self, words: usize) {
        if words > ARGUMENTS {
            self.refusal = Some("a command has at most 1024 words");
        }
        self.begun = self.bytes.len();
        self.commands += 1;
        resp::array_head(words, &mut self.bytes);
    }

    /// The next word of the command that was begun.
    pub fn word(&mut self, word: &[u8]) {
        // What a store would hang up over is not sent: others use the same connection.
        if word.len() > VALUE_BYTES {
            self.refusal = Some("a value has at most 8388608 bytes");
        } else if self.bytes.len() - self.begun + word.len() > COMMAND_BYTES {
            self.refusal = Some("the command is too large for the store");
        } else {
            resp::bulk(word, &mut self.bytes);
        }
    }

    /// One more command.
    pub fn command(&mut self, words: &[&[u8]]) {
        self.begin(words.len());
        words.iter().for_each(|word| self.word(word));
    }

    /// Why it cannot be sent.
    pub(super) fn refusal(&self) -> Option<Failure> {
        self.refusal.map(Failure::Refused)
    }

    /// One command.
    pub fn of(words: &[&[u8]]) -> Request {
        let mut request = Request::default();
        request.command(words);
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

/// What a store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Nothing,
    Integer(i64),
    Bytes(Bytes),
    /// UTF-8, if it was put there by one of us.
    Text(Bytes),
    /// Done.
    Done,
    /// The store's own words.
    Refused(String),
    List(Vec<Answer>),
    /// What comes out of turn.
    Push(Vec<Answer>),
}

/// The reply that stands in `bytes` and that `reader` has just read.
pub(super) fn answer(bytes: &[u8], reader: &Reader) -> Result<Answer, Failure> {
    let mut items = reader.items().iter();
    one(bytes, &mut items).ok_or(Failure::Malformed("an answer of an unknown kind"))
}

fn one(bytes: &[u8], items: &mut std::slice::Iter<'_, Item>) -> Option<Answer> {
    let many = |items: &mut std::slice::Iter<'_, Item>, count: usize| {
        (0..count).map(|_| one(bytes, items)).collect::<Option<Vec<Answer>>>()
    };
    Some(match items.next()? {
        Item::Null => Answer::Nothing,
        Item::Integer(number) => Answer::Integer(*number),
        Item::Error(place) => {
            Answer::Refused(String::from_utf8_lossy(bytes.get(place.clone())?).into_owned())
        }
        Item::Text(place) => {
            let text = Bytes::copy_from_slice(bytes.get(place.clone())?);
            // What stands before it says what it is: its kind in a line of its own, the format of
            // a text, or the end of a length.
            match place.start.checked_sub(1).and_then(|before| bytes.get(before))? {
                b'+' => Answer::Done,
                b':' => Answer::Text(text),
                _ => Answer::Bytes(text),
            }
        }
        Item::Array(count) => Answer::List(many(items, *count)?),
        Item::Push(count) => Answer::Push(many(items, *count)?),
        Item::Map(pairs) => Answer::List(many(items, pairs.checked_mul(2)?)?),
        Item::Double(_) | Item::Boolean(_) | Item::Set(_) => return None,
    })
}

/// As many answers as there were commands, which is all there is.
pub(super) fn read_all(mut bytes: &[u8], commands: usize) -> Result<Vec<Answer>, Failure> {
    let mut reader = Reader::default();
    let mut answers = Vec::with_capacity(commands);
    while answers.len() < commands {
        let read = reader.read(bytes, &LIMITS).map_err(|fault| Failure::Malformed(fault.text()))?;
        let length = read.ok_or(Failure::Refused("the command is too large for the store"))?;
        answers.push(answer(bytes, &reader)?);
        bytes = &bytes[length..];
    }
    Ok(answers)
}
