//! The backend of gateways for large bodies: reads a body, and responds with one.
//!
//! Promises that a request's whole body is read before the response, whose size depends on the
//! path. A thread for each connection, blocking: part of the load, so its own cost does not count.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::body;

/// A response of [`LARGE_BYTES`] with Content-Length.
pub(crate) const DOWNLOAD_PATH: &str = "/download";
/// A response of [`CHUNKED_BYTES`] in chunks of [`CHUNK_BYTES`].
pub(crate) const CHUNKED_PATH: &str = "/chunked";
/// Every other path is answered with these bytes.
pub(crate) const RECEIVED: &str = "received";

pub(crate) const LARGE_BYTES: usize = 1_000_000;
pub(crate) const CHUNKED_BYTES: usize = 64 * 1024;
const CHUNK_BYTES: usize = 8 * 1024;

/// Both ends of a connection buffer about as much.
const READ_BYTES: usize = 64 * 1024;
const HEAD_BYTES_MAX: u64 = 16 * 1024;

struct Responses {
    download: Vec<u8>,
    chunked: Vec<u8>,
    received: Vec<u8>,
}

/// Serves until the process ends.
pub(super) fn serve(listener: &TcpListener) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";
    let sized = |body: &[u8]| {
        [format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    };
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for chunk in body(CHUNKED_BYTES).chunks(CHUNK_BYTES) {
        chunked.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunked.extend(chunk);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    let (download, received) = (sized(&body(LARGE_BYTES)), sized(RECEIVED.as_bytes()));
    let responses = Responses { download, chunked, received };
    thread::scope(|scope| {
        loop {
            let (stream, _) = listener.accept()?;
            // The end of one connection is its own.
            scope.spawn(|| respond(stream, &responses));
        }
    })
}

fn respond(stream: TcpStream, responses: &Responses) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::with_capacity(READ_BYTES, stream);
    loop {
        let mut lines = reader.by_ref().take(HEAD_BYTES_MAX);
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let (mut length, mut is_chunked) = (0, false);
        loop {
            line.clear();
            lines.read_line(&mut line)?;
            match line.split_once(':') {
                None if line == "\r\n" => break,
                None => return Err(io::ErrorKind::InvalidData.into()),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().map_err(io::Error::other)?;
                }
                Some((name, _)) => is_chunked |= name.eq_ignore_ascii_case("transfer-encoding"),
            }
        }
        match is_chunked {
            true => skip_chunks(&mut reader)?,
            false => skip(&mut reader, length)?,
        }
        writer.write_all(match path.as_str() {
            DOWNLOAD_PATH => &responses.download,
            CHUNKED_PATH => &responses.chunked,
            _ => &responses.received,
        })?;
    }
}

fn skip(reader: &mut BufReader<TcpStream>, bytes: u64) -> io::Result<()> {
    match io::copy(&mut reader.take(bytes), &mut io::sink())? {
        read if read == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn skip_chunks(reader: &mut BufReader<TcpStream>) -> io::Result<()> {
    loop {
        let mut line = String::new();
        reader.take(HEAD_BYTES_MAX).read_line(&mut line)?;
        let length = u64::from_str_radix(line.trim_end(), 16).map_err(io::Error::other)?;
        // Without trailers the end is a chunk of no bytes.
        skip(reader, length + 2)?;
        if length == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNKED_BYTES, LARGE_BYTES, RECEIVED, serve};
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};

    #[test]
    fn bodies_are_read_and_sent_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener));
        let mut client = TcpStream::connect(address).unwrap();
        let requests = "POST /upload HTTP/1.1\r\nContent-Length: 4\r\n\r\nfour\
                        POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                        4\r\nfour\r\n0\r\n\r\nGET /download HTTP/1.1\r\n\r\n\
                        GET /chunked HTTP/1.1\r\n\r\n";
        client.write_all(requests.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text.matches(&format!("\r\n\r\n{RECEIVED}HTTP/1.1 200 OK")).count(), 2);
        assert!(text.contains(&format!("content-length: {LARGE_BYTES}\r\n")));
        assert_eq!(text.matches("\r\n2000\r\n").count(), CHUNKED_BYTES / 0x2000);
        assert!(text.ends_with("\r\n0\r\n\r\n"));
    }
}
