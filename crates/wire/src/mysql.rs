//! MySQL's protocol, as its client: packets, the login, and the packets of responses.
//!
//! Promises that a packet is the same however its bytes were split, that its size is limited, and
//! that no input makes a parser read past its packet. The states of a connection are its owner's.

mod cursor;
mod login;
mod packets;
mod response;
mod row;

pub use login::{Greeting, Login, LoginReply, capabilities};
pub use packets::{Packets, frame};
pub use response::{
    AUTOCOMMIT, Column, ErrPacket, IN_TRANSACTION, MORE_RESULTS, OkPacket, Prepared, column_count,
    is_end,
};
pub use row::{Parameter, Row, Value, execute};

/// Why the bytes of a server cannot be used; the connection is then of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A packet ends before its last field, or has a value that its field cannot have.
    Malformed,
    /// A packet is longer than the limit.
    TooLarge,
    /// The server speaks another version of the protocol.
    Version,
}

impl Fault {
    /// The reason, as programs see it.
    pub fn text(self) -> &'static str {
        match self {
            Fault::Malformed => "mysql: malformed packet",
            Fault::TooLarge => "mysql: a packet is larger than max_packet_size",
            Fault::Version => "mysql: the server does not speak version 10 of the protocol",
        }
    }
}

#[cfg(test)]
mod tests;
