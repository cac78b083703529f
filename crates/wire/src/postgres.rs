//! PostgreSQL's protocol 3.0, as its client: messages, what they say, and values as text.
//!
//! Promises that a message is the same however its bytes were split, that its size is limited, and
//! that no input makes a parser read past its message. The states of a connection are its owner's.

mod backend;
mod frontend;
mod messages;
mod value;

pub use backend::{Authentication, Column, DataRow, ServerError, ServerMessage, TransactionState};
pub use frontend::{
    Parameter, cancel_request, close_statement, execute, password, prepare, query, sasl_initial,
    sasl_response, startup, terminate, tls_request,
};
pub use messages::Messages;
pub use value::{Array, ArrayItem, Value, is_array, value};

/// Types of values that are not sent or read as text.
pub mod oids {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const OID: u32 = 26;
    pub const XID: u32 = 28;
    pub const JSON: u32 = 114;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const BYTEA_ARRAY: u32 = 1001;
    pub const JSONB: u32 = 3802;
}

/// Why the bytes of a server cannot be used; the connection is then of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A message ends before its last field, or has a value that its field cannot have.
    Malformed,
    /// A message is longer than the limit.
    TooLarge,
}

impl Fault {
    /// The reason, as programs see it.
    pub fn text(self) -> &'static str {
        match self {
            Fault::Malformed => "postgres: malformed message",
            Fault::TooLarge => "postgres: a message is larger than max_packet_size",
        }
    }
}

#[cfg(test)]
mod tests;
