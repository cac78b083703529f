//! The cost of parsing one head, counted in instructions instead of timed.
//!
//! Parses one of the heads below a given number of times and does nothing else, so that the
//! difference between two runs, divided by the difference of their counts, gives the instructions
//! per head exactly:
//!
//! ```text
//! cargo build --release -p wire --example heads
//! for n in 1000 2000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!     target/release/examples/heads wrk $n
//! done
//! ```

use std::hint::black_box;
use std::process::ExitCode;

use wire::h1::{HeadLimits, parse_request, parse_response};

/// A request of `wrk`.
const WRK: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// A request of a browser.
const BROWSER: &[u8] = b"GET /assets/app.css?v=12 HTTP/1.1\r\n\
Host: shop.example.com\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
Accept: text/css,*/*;q=0.1\r\n\
Accept-Language: en-US,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Connection: keep-alive\r\n\
Referer: http://shop.example.com/\r\n\
Cookie: session=0123456789abcdef; theme=dark\r\n\
X-Client-Build: 2026.11.20\r\n\
Priority: u=2\r\n\r\n";

/// A response of nginx with a small file.
const NGINX: &[u8] = b"HTTP/1.1 200 OK\r\n\
Server: nginx/1.22.1\r\n\
Date: Fri, 20 Nov 2026 13:35:24 GMT\r\n\
Content-Type: text/plain\r\n\
Content-Length: 2048\r\n\
Connection: keep-alive\r\n\
ETag: \"673de3ac-800\"\r\n\r\n";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (which, times) = (arguments.next(), arguments.next());
    let times = times.and_then(|times| times.parse().ok()).unwrap_or(1);
    match which.as_deref() {
        Some("wrk") => requests(WRK, times),
        Some("browser") => requests(BROWSER, times),
        Some("nginx") => responses(NGINX, times),
        _ => {
            eprintln!("heads wrk|browser|nginx TIMES");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn requests(head: &[u8], times: usize) {
    let (limits, mut fields) = (HeadLimits::default(), Vec::with_capacity(16));
    for _ in 0..times {
        let parsed = parse_request(black_box(head), black_box(&limits), &mut fields);
        assert!(matches!(black_box(&parsed), Ok(Some(_))));
    }
}

fn responses(head: &[u8], times: usize) {
    let (limits, mut fields) = (HeadLimits::default(), Vec::with_capacity(16));
    for _ in 0..times {
        let parsed = parse_response(black_box(head), black_box(&limits), &mut fields, false);
        assert!(matches!(black_box(&parsed), Ok(Some(_))));
    }
}
