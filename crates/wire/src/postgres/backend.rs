//! The messages of the server.

use super::Fault;

/// A message of the server; those that a client needs not know are [`ServerMessage::Ignored`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMessage<'a> {
    Authentication(Authentication<'a>),
    /// What a request to cancel a statement of this connection has to name.
    CancelKey {
        process: u32,
        key: u32,
    },
    /// The server waits for the next statement.
    Ready(TransactionState),
    Error(ServerError<'a>),
    /// The types of a statement's parameters.
    Parameters(Vec<u32>),
    Columns(Vec<Column<'a>>),
    /// The statement gives no rows.
    NoColumns,
    Row(DataRow<'a>),
    /// The statement has ended, such as `INSERT 0 1`.
    Complete(&'a [u8]),
    /// The statement's text was empty.
    Empty,
    Notification {
        process: u32,
        channel: &'a [u8],
        payload: &'a [u8],
    },
    /// The server wants the data of `copy … from stdin`, or sends that of `copy … to stdout`.
    Copy {
        is_to_server: bool,
    },
    Ignored,
}

/// What the server wants before it accepts the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    Accepted,
    Password,
    Md5 {
        salt: [u8; 4],
    },
    /// The names of the mechanisms that the server has.
    Sasl(Vec<&'a [u8]>),
    SaslContinue(&'a [u8]),
    SaslFinal(&'a [u8]),
    /// A method that is not supported, by its number.
    Other(u32),
}

/// The state of a connection's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    Idle,
    Open,
    /// A statement of the transaction has failed; it can only be rolled back.
    Failed,
}

/// An error or a notice of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError<'a> {
    pub severity: &'a [u8],
    pub code: &'a [u8],
    pub message: &'a [u8],
    pub detail: Option<&'a [u8]>,
    pub hint: Option<&'a [u8]>,
    pub position: Option<&'a [u8]>,
    pub table: Option<&'a [u8]>,
    pub column: Option<&'a [u8]>,
    pub constraint: Option<&'a [u8]>,
}

/// A column of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    pub name: &'a [u8],
    pub kind: u32,
}

/// The values of a row, in the order of the columns; `None` is null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRow<'a> {
    cursor: Cursor<'a>,
    left: u16,
}

impl<'a> DataRow<'a> {
    /// The number of values that were not read.
    pub fn len(&self) -> usize {
        self.left.into()
    }

    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The next value; an error after the last one.
    pub fn next_value(&mut self) -> Result<Option<&'a [u8]>, Fault> {
        self.left = self.left.checked_sub(1).ok_or(Fault::Malformed)?;
        let length = self.cursor.u32()? as i32;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Fault::Malformed)?;
        self.cursor.take(length).map(Some)
    }
}

impl<'a> ServerMessage<'a> {
    /// Parses the content of a message.
    pub fn parse(kind: u8, content: &'a [u8]) -> Result<ServerMessage<'a>, Fault> {
        let mut cursor = Cursor(content);
        Ok(match kind {
            b'R' => ServerMessage::Authentication(authentication(&mut cursor)?),
            b'K' => ServerMessage::CancelKey { process: cursor.u32()?, key: cursor.u32()? },
            b'Z' => ServerMessage::Ready(match cursor.u8()? {
                b'I' => TransactionState::Idle,
                b'T' => TransactionState::Open,
                b'E' => TransactionState::Failed,
                _ => return Err(Fault::Malformed),
            }),
            b'E' => ServerMessage::Error(error(&mut cursor)?),
            b't' => {
                let count = cursor.u16()?;
                ServerMessage::Parameters(
                    (0..count).map(|_| cursor.u32()).collect::<Result<_, _>>()?,
                )
            }
            b'T' => {
                let count = cursor.u16()?;
                let columns = (0..count).map(|_| column(&mut cursor)).collect::<Result<_, _>>()?;
                ServerMessage::Columns(columns)
            }
            b'n' => ServerMessage::NoColumns,
            b'D' => {
                let left = cursor.u16()?;
                ServerMessage::Row(DataRow { cursor, left })
            }
            b'C' => ServerMessage::Complete(cursor.text()?),
            b'I' => ServerMessage::Empty,
            b'A' => ServerMessage::Notification {
                process: cursor.u32()?,
                channel: cursor.text()?,
                payload: cursor.text()?,
            },
            b'G' => ServerMessage::Copy { is_to_server: true },
            b'H' | b'W' => ServerMessage::Copy { is_to_server: false },
            // Notices and settings of the session; a prepared, bound or released statement; data
            // and end of a copy.
            b'N' | b'S' | b'1' | b'2' | b'3' | b's' | b'd' | b'c' | b'v' => ServerMessage::Ignored,
            _ => return Err(Fault::Malformed),
        })
    }
}

fn authentication<'a>(cursor: &mut Cursor<'a>) -> Result<Authentication<'a>, Fault> {
    Ok(match cursor.u32()? {
        0 => Authentication::Accepted,
        3 => Authentication::Password,
        5 => {
            let salt = cursor.take(4)?.try_into().map_err(|_| Fault::Malformed)?;
            Authentication::Md5 { salt }
        }
        10 => {
            let mut mechanisms = Vec::new();
            loop {
                match cursor.text()? {
                    b"" => break,
                    mechanism => mechanisms.push(mechanism),
                }
            }
            Authentication::Sasl(mechanisms)
        }
        11 => Authentication::SaslContinue(cursor.0),
        12 => Authentication::SaslFinal(cursor.0),
        other => Authentication::Other(other),
    })
}

fn error<'a>(cursor: &mut Cursor<'a>) -> Result<ServerError<'a>, Fault> {
    let mut error = ServerError::default();
    loop {
        let kind = cursor.u8()?;
        if kind == 0 {
            return Ok(error);
        }
        let text = cursor.text()?;
        match kind {
            b'V' => error.severity = text,
            b'S' if error.severity.is_empty() => error.severity = text,
            b'C' => error.code = text,
            b'M' => error.message = text,
            b'D' => error.detail = Some(text),
            b'H' => error.hint = Some(text),
            b'P' => error.position = Some(text),
            b't' => error.table = Some(text),
            b'c' => error.column = Some(text),
            b'n' => error.constraint = Some(text),
            _ => {}
        }
    }
}

fn column<'a>(cursor: &mut Cursor<'a>) -> Result<Column<'a>, Fault> {
    let name = cursor.text()?;
    // The table and the number of the column in it.
    cursor.take(6)?;
    let kind = cursor.u32()?;
    // Its size, its modifier, and the format, which is text.
    cursor.take(6)?;
    match cursor.u16()? {
        0 => Ok(Column { name, kind }),
        _ => Err(Fault::Malformed),
    }
}

/// The unread bytes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Fault::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.take(N)?.try_into().map_err(|_| Fault::Malformed)
    }

    fn u8(&mut self) -> Result<u8, Fault> {
        self.number().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, Fault> {
        self.number().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        self.number().map(u32::from_be_bytes)
    }

    /// Bytes before a zero, which is taken too.
    fn text(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.0.iter().position(|&byte| byte == 0).ok_or(Fault::Malformed)?;
        let text = self.take(length)?;
        self.take(1)?;
        Ok(text)
    }
}
