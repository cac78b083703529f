//! The messages of the client.

/// A parameter of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameter<'a> {
    Null,
    Text(&'a [u8]),
    /// Bytes as they are, for `bytea`.
    Binary(&'a [u8]),
}

/// Requests TLS; the server responds with one byte, `S` or `N`.
pub fn tls_request() -> [u8; 8] {
    untyped(80_877_103)
}

/// Asks the server, on a connection of its own, to cancel what another connection executes.
pub fn cancel_request(process: u32, key: u32) -> Vec<u8> {
    let mut out = 16u32.to_be_bytes().to_vec();
    for number in [80_877_102, process, key] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out
}

fn untyped(code: u32) -> [u8; 8] {
    let mut out = [0, 0, 0, 8, 0, 0, 0, 0];
    out[4..].copy_from_slice(&code.to_be_bytes());
    out
}

/// The first message: protocol 3.0 and settings of the session, which have no zero bytes.
pub fn startup(settings: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(&(3u32 << 16).to_be_bytes());
    for (name, value) in settings {
        put_text(name, &mut out);
        put_text(value, &mut out);
    }
    out.push(0);
    let length = out.len() as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

/// A password in the clear, or its hash.
pub fn password(password: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message(b'p', &mut out, |out| put_text(password, out));
    out
}

/// The first message of a SASL mechanism.
pub fn sasl_initial(mechanism: &[u8], first: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message(b'p', &mut out, |out| {
        put_text(mechanism, out);
        put_length(first.len(), out);
        out.extend_from_slice(first);
    });
    out
}

/// A further message of a SASL mechanism.
pub fn sasl_response(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message(b'p', &mut out, |out| out.extend_from_slice(data));
    out
}

/// A statement without parameters, for which nothing is prepared.
pub fn query(sql: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message(b'Q', &mut out, |out| put_text(sql, out));
    out
}

/// Prepares a statement under a name, and asks for its parameters and columns.
pub fn prepare(name: &[u8], sql: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message(b'P', &mut out, |out| {
        put_text(name, out);
        put_text(sql, out);
        out.extend_from_slice(&[0, 0]);
    });
    message(b'D', &mut out, |out| {
        out.push(b'S');
        put_text(name, out);
    });
    message(b'S', &mut out, |_| {});
    out
}

/// Executes a prepared statement, whose results are to be text. `None` if there are more
/// parameters than the protocol can count.
pub fn execute(name: &[u8], parameters: &[Parameter<'_>]) -> Option<Vec<u8>> {
    let count = u16::try_from(parameters.len()).ok()?.to_be_bytes();
    let mut out = Vec::new();
    message(b'B', &mut out, |out| {
        out.push(0);
        put_text(name, out);
        out.extend_from_slice(&count);
        for parameter in parameters {
            let format = u16::from(matches!(parameter, Parameter::Binary(_)));
            out.extend_from_slice(&format.to_be_bytes());
        }
        out.extend_from_slice(&count);
        for parameter in parameters {
            match parameter {
                Parameter::Null => out.extend_from_slice(&(-1i32).to_be_bytes()),
                Parameter::Text(bytes) | Parameter::Binary(bytes) => {
                    put_length(bytes.len(), out);
                    out.extend_from_slice(bytes);
                }
            }
        }
        out.extend_from_slice(&[0, 0]);
    });
    // The portal without a name, all rows.
    message(b'E', &mut out, |out| out.extend_from_slice(&[0; 5]));
    message(b'S', &mut out, |_| {});
    Some(out)
}

/// Releases a prepared statement. The server responds after the next message that has a response.
pub fn close_statement(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    message(b'C', &mut out, |out| {
        out.push(b'S');
        put_text(name, out);
    });
    out
}

/// Ends the connection.
pub fn terminate() -> Vec<u8> {
    let mut out = Vec::new();
    message(b'X', &mut out, |_| {});
    out
}

/// Appends a message: its kind, its length, its content.
fn message(kind: u8, out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    content(out);
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u32).to_be_bytes());
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
    out.push(0);
}
