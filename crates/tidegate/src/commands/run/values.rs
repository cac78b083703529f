//! Parsers of option values with units or several spellings. Every error is a complete sentence.
//!
//! A time without a unit is in seconds, as in gunicorn, uvicorn and granian.

use std::path::PathBuf;

use settings::{Address, Cidr, Duration, Size};

/// Descriptors that a process may inherit, without standard input, output and error.
const DESCRIPTORS: std::ops::RangeInclusive<i32> = 3..=65_535;

/// `30`, `0.25`, `30s`, `500ms`.
pub(super) fn seconds(typed: &str) -> Result<Duration, String> {
    let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let written = match typed.is_empty() || !typed.bytes().all(is_number) {
        true => typed.to_owned(),
        false => format!("{typed}s"),
    };
    written.parse().map_err(|why| format!("\"{typed}\" {why}"))
}

/// Parses a duration above zero.
pub(super) fn some_seconds(typed: &str) -> Result<Duration, String> {
    match seconds(typed)? {
        zero if zero.get().is_zero() => Err(format!("\"{typed}\" is not a positive time")),
        duration => Ok(duration),
    }
}

/// `8MiB`; a number without a unit is bytes.
pub(super) fn size(typed: &str) -> Result<Size, String> {
    let written = match typed.is_empty() || !typed.bytes().all(|byte| byte.is_ascii_digit()) {
        true => typed.to_owned(),
        false => format!("{typed}B"),
    };
    written.parse().map_err(|why| format!("\"{typed}\" {why}"))
}

/// Parses the size of a store, with the limits of the configuration.
pub(super) fn store(typed: &str) -> Result<Size, String> {
    let bounds = Size::from_bytes(1 << 20)..=Size::from_bytes(64 << 30);
    let size = size(typed)?;
    let fits = bounds.contains(&size).then_some(size);
    fits.ok_or_else(|| format!("\"{typed}\" is not from 1MiB to 64GiB"))
}

/// Parses the address of a StatsD server as gunicorn does: `HOST[:PORT]` or `unix:///PATH`.
pub(super) fn statsd_host(typed: &str) -> Result<Address, String> {
    if let Some(path) = typed.strip_prefix("unix://") {
        return crate::commands::address(&format!("unix:{path}"));
    }
    let has_port = typed.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    crate::commands::address(&if has_port { typed.to_owned() } else { format!("{typed}:8125") })
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenAddress {
    Address(Address),
    /// An inherited socket.
    Descriptor(i32),
}

/// An address, a port alone, `unix:/path` or `fd://N`.
pub(super) fn listen_address(typed: &str) -> Result<ListenAddress, String> {
    if let Some(number) = typed.strip_prefix("fd://") {
        return descriptor(number).map(ListenAddress::Descriptor);
    }
    let typed = match typed.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => typed.to_owned(),
    };
    crate::commands::address(&typed).map(ListenAddress::Address)
}

pub(super) fn descriptor(typed: &str) -> Result<i32, String> {
    typed.parse().ok().filter(|number| DESCRIPTORS.contains(number)).ok_or_else(|| {
        format!("\"{typed}\" is not a descriptor that can be inherited: 3 is the first")
    })
}

/// Parses `/static=./public`: a path prefix and its directory.
pub(super) fn mount(typed: &str) -> Result<(String, PathBuf), String> {
    let (prefix, directory) = typed
        .split_once('=')
        .filter(|(prefix, directory)| !prefix.is_empty() && !directory.is_empty())
        .ok_or_else(|| format!("\"{typed}\" is not PREFIX=DIR, such as /static=./public"))?;
    match root_path(prefix)? {
        prefix if prefix.is_empty() => {
            Err(format!("\"{typed}\" would hide the application: name a path below /"))
        }
        prefix => Ok((prefix, directory.into())),
    }
}

/// Parses a path prefix and removes its final slash.
pub(super) fn root_path(typed: &str) -> Result<String, String> {
    let odd = |letter: char| letter.is_control() || "?#{}%".contains(letter);
    if !typed.is_empty() && !typed.starts_with('/') {
        return Err(format!("\"{typed}\" does not begin with a slash: did you mean /{typed}?"));
    }
    if typed.contains(odd) || typed.contains("//") {
        return Err(format!("\"{typed}\" is not a path as it stands in a URL without its query"));
    }
    Ok(typed.trim_end_matches('/').to_owned())
}

/// Parses `10.0.0.0/8,::1`, or `*` for all peers.
pub(super) fn peers(typed: &str) -> Result<Vec<Cidr>, String> {
    let mut ranges = Vec::new();
    for word in typed.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let all: &[&str] = if word == "*" { &["0.0.0.0/0", "::/0"] } else { &[word] };
        for range in all {
            ranges.push(range.parse().map_err(|why| format!("\"{word}\" {why}"))?);
        }
    }
    Ok(ranges)
}

/// Parses a field that every response gets: `NAME: VALUE`.
pub(super) fn field(typed: &str) -> Result<(String, String), String> {
    let (name, value) = typed.split_once(':').unwrap_or((typed, ""));
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || value.is_empty() {
        return Err(format!("\"{typed}\" is not NAME:VALUE, such as x-frame-options:DENY"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Parses permissions of a file as an octal number: `660`, `0660`, `0o660`.
pub(super) fn mode(typed: &str) -> Result<u32, String> {
    let octal = typed.strip_prefix("0o").unwrap_or(typed);
    let mode = u32::from_str_radix(octal, 8).ok().filter(|mode| *mode <= 0o777);
    mode.filter(|_| !octal.starts_with('+')).ok_or_else(|| {
        format!("\"{typed}\" is not a mode of a file: write it as an octal number, such as 660")
    })
}

/// Parses a mask of permissions as gunicorn does, except decimal numbers: 22 would be 026.
pub(super) fn umask(typed: &str) -> Result<u32, String> {
    let octal = typed.strip_prefix("0o").or_else(|| typed.strip_prefix('0')).unwrap_or_default();
    let mask = if typed == "0" { Ok(0) } else { u32::from_str_radix(octal, 8) };
    mask.ok().filter(|mask| *mask <= 0o777).ok_or_else(|| {
        format!(
            "\"{typed}\" is not a mask of permissions: write it as an octal number, such as 027"
        )
    })
}

/// The file for the process id. A number is rather a port: `-p` is that elsewhere.
pub(super) fn pid_file(typed: &str) -> Result<PathBuf, String> {
    match typed.parse::<u16>() {
        Ok(port) => Err(format!("\"{typed}\" names no file: did you mean --port {port}?")),
        Err(_) => Ok(typed.into()),
    }
}

/// The number of threads: fixed, or as many as needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    Auto,
    Count(u16),
    /// Greenlets of gevent's instead.
    Gevent,
}

pub(super) fn threads(typed: &str) -> Result<Threads, String> {
    const MOST: u16 = 1024;
    match typed.parse::<u16>() {
        _ if typed == "auto" => Ok(Threads::Auto),
        _ if typed == "gevent" => Ok(Threads::Gevent),
        Ok(count @ 1..=MOST) => Ok(Threads::Count(count)),
        _ => Err(format!("\"{typed}\" is neither auto nor gevent, nor a number from 1 to {MOST}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        ListenAddress, Threads, field, listen_address, mode, mount, peers, pid_file, root_path,
        seconds, size, some_seconds, threads, umask,
    };

    #[test]
    fn numbers_mean_what_they_mean_elsewhere() {
        assert_eq!(seconds("30").unwrap(), "30s".parse().unwrap());
        assert_eq!(seconds("500ms").unwrap(), "500ms".parse().unwrap());
        assert_eq!(seconds("0.25").unwrap(), "250ms".parse().unwrap());
        assert_eq!(size("1024").unwrap(), "1KiB".parse().unwrap());
        assert!(seconds("").is_err() && seconds("-1").is_err() && size("").is_err());
        assert!(seconds(".").is_err() && seconds("1.2.3").is_err());
        assert!(some_seconds("0").unwrap_err().contains("not a positive time"));
        assert_eq!(threads("auto"), Ok(Threads::Auto));
        assert_eq!(threads("4"), Ok(Threads::Count(4)));
        assert_eq!(threads("gevent"), Ok(Threads::Gevent));
        assert!(threads("0").is_err() && threads("1025").is_err() && threads("x").is_err());
    }

    #[test]
    fn words_of_gunicorn() {
        assert_eq!(field("X-A: b:c"), Ok(("X-A".to_owned(), "b:c".to_owned())));
        assert!(field("x-a").is_err() && field(":b").is_err());
        assert_eq!((umask("0"), umask("027"), umask("0o77")), (Ok(0), Ok(0o27), Ok(0o77)));
        assert_eq!((mode("660"), mode("0660"), mode("0o7")), (Ok(0o660), Ok(0o660), Ok(0o7)));
        assert!(mode("1777").is_err() && mode("8").is_err() && mode("").is_err());
        assert!(umask("22").is_err() && umask("01000").is_err() && umask("").is_err());
        assert_eq!(pid_file("/run/a.pid"), Ok("/run/a.pid".into()));
        assert!(pid_file("8000").unwrap_err().contains("--port 8000"));
    }

    #[test]
    fn addresses() {
        let at = |typed: &str| match listen_address(typed) {
            Ok(ListenAddress::Address(address)) => address.to_string(),
            Ok(ListenAddress::Descriptor(number)) => format!("descriptor {number}"),
            Err(why) => why,
        };
        assert_eq!(at("8000"), "127.0.0.1:8000");
        assert_eq!(at(":8000"), ":8000");
        assert_eq!(at("unix:/run/a.sock"), "unix:/run/a.sock");
        assert_eq!(at("fd://3"), "descriptor 3");
        assert!(at("fd://2").contains("3 is the first"));
        assert!(at("fd://x").contains("3 is the first"));
        assert!(at("localhost").contains("\"localhost\" "));
    }

    #[test]
    fn paths() {
        assert_eq!(mount("/static=./public"), Ok(("/static".to_owned(), "./public".into())));
        assert_eq!(mount("/x/=a=b"), Ok(("/x".to_owned(), "a=b".into())));
        assert!(mount("/=.").unwrap_err().contains("would hide the application"));
        assert!(mount("/static").unwrap_err().contains("PREFIX=DIR"));
        assert!(mount("static=x").unwrap_err().contains("did you mean /static?"));
        assert_eq!(root_path("/api/"), Ok("/api".to_owned()));
        assert!(root_path("/a?b").is_err() && root_path("/a//b").is_err());
        assert!(root_path("/{x}").is_err());
    }

    #[test]
    fn ranges_of_peers() {
        let read = |typed: &str| {
            peers(typed).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(read("127.0.0.1, ::1").unwrap(), ["127.0.0.1", "::1"]);
        assert_eq!(read("*").unwrap(), ["0.0.0.0/0", "::/0"]);
        assert_eq!(read("").unwrap(), Vec::<String>::new());
        assert!(read("10.0.0.1/8").unwrap_err().contains("write 10.0.0.0/8"));
    }
}
