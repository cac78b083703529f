//! A limit on addresses (RLIMIT_AS), as `prlimit --as` and systemd's `LimitAS` set it: the server
//! starts and serves, or names what it needs.

use crate::setup::responding;
use scenarios::Launch;

/// With between 128 and 300 MB, what an allocator reserves in advance fits, and nothing else does.
#[test]
fn a_server_starts_and_serves_under_a_limit_on_addresses() {
    for megabytes in [185, 200, 270, 400, 1_200] {
        let server = Launch::new(&responding("")).addresses(megabytes * 1_000_000 / 1024).start();
        for _ in 0..3 {
            let mut client = server.connect("web");
            client.send("GET /big HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(client.read_response().body.len(), 8 << 20, "{megabytes} MB");
        }
    }
}

#[test]
fn a_limit_that_is_too_low_is_named_with_what_is_needed() {
    let config = responding("").replace("workers: 2", "workers: 64");
    let exit = Launch::new(&config).addresses(250_000).start().wait();
    let told = "64 workers need ";
    assert!(exit.code == Some(1) && exit.stderr.contains(told), "{exit:?}");
    let needed = exit.stderr.split(told).nth(1).and_then(|rest| rest.split(' ').next());
    let needed: u64 = needed.and_then(|number| number.parse().ok()).expect("a number of MiB");
    // With that much it starts.
    let server = Launch::new(&config).addresses((needed + 1) * 1024).start();
    server.address("web");
}
