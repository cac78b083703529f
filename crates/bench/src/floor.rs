//! The floor servers and the mock backend: bare epoll loops that do the least that answers.
//!
//! Owns what a process does that was started as one of them: `serve` reads its arguments, binds,
//! says `listening ADDRESS` on stdout, and serves until the process ends.
//! Nobody on epoll can cost less than a floor, so `floor ÷ ours` says how much of our cost is
//! ours and how much is the kernel's.

mod backend;
mod hello;
mod proxy;

pub use backend::{Behaviour, body};

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// How the arguments of [`serve`] look.
pub const USAGE: &str = "hello ADDRESS | proxy ADDRESS UPSTREAM keep|close | \
                         backend ADDRESS BODY_BYTES DELAY_MS keep|close";

/// What a floor process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Floor {
    Hello,
    Proxy { upstream: SocketAddr, keep: bool },
    Backend(Behaviour),
}

/// Runs the server that the arguments name; returns only when it failed.
pub fn serve(arguments: &[String]) -> io::Result<()> {
    let (address, floor) = parse(arguments)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("usage: {USAGE}")))?;
    let listener = TcpListener::bind(address)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "listening {}", listener.local_addr()?)?;
    stdout.flush()?;
    match floor {
        Floor::Hello => hello::serve(&listener),
        Floor::Proxy { upstream, keep } => proxy::serve(&listener, upstream, keep),
        Floor::Backend(behaviour) => backend::serve(&listener, behaviour),
    }
}

fn parse(arguments: &[String]) -> Option<(SocketAddr, Floor)> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let keep = |word: &str| match word {
        "keep" => Some(true),
        "close" => Some(false),
        _ => None,
    };
    let (address, floor) = match words[..] {
        ["hello", address] => (address, Floor::Hello),
        ["proxy", address, upstream, kept] => {
            (address, Floor::Proxy { upstream: upstream.parse().ok()?, keep: keep(kept)? })
        }
        ["backend", address, bytes, delay_ms, kept] => {
            let delay = Duration::from_millis(delay_ms.parse().ok()?);
            let body_bytes = bytes.parse().ok()?;
            (address, Floor::Backend(Behaviour { body_bytes, delay, keep: keep(kept)? }))
        }
        _ => return None,
    };
    Some((address.parse().ok()?, floor))
}

#[cfg(test)]
mod tests {
    use super::{Behaviour, Floor, parse};
    use std::time::Duration;

    #[test]
    fn arguments_name_one_of_three() {
        let parsed = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            parse(&words).map(|(_, floor)| floor)
        };
        assert_eq!(parsed("hello 127.0.0.1:0"), Some(Floor::Hello));
        let upstream = "127.0.0.1:9".parse().unwrap();
        assert_eq!(
            parsed("proxy 127.0.0.1:0 127.0.0.1:9 close"),
            Some(Floor::Proxy { upstream, keep: false })
        );
        let behaviour =
            Behaviour { body_bytes: 2048, delay: Duration::from_millis(20), keep: true };
        assert_eq!(parsed("backend 127.0.0.1:0 2048 20 keep"), Some(Floor::Backend(behaviour)));
        assert_eq!(parsed("backend 127.0.0.1:0 2048 20 maybe"), None);
        assert_eq!(parsed("proxy 127.0.0.1:0"), None);
    }
}
