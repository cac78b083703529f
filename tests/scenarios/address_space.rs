//! A limit on addresses (RLIMIT_AS), as `prlimit --as` and systemd's `LimitAS` set it: the server
//! starts and serves, or names what it needs.

use crate::setup::responding;
use scenarios::Launch;

/// What a server has reserved when it measures itself differs by less than this between two starts:
/// the blocks of the allocator depend on how far the thread is that has read the configuration.
const VARIATION: u64 = 4;

/// The MiB of addresses that a server needs, as it reports when it has too few. With fewer still,
/// which depends on the size of the program, it cannot even report.
fn needed(config: &str, workers: usize) -> u64 {
    let told = format!("{workers} workers need ");
    let reported = (150..400).step_by(4).find_map(|megabytes| {
        let exit = Launch::new(config).addresses(megabytes * 1024).start().wait();
        let number = exit.stderr.split(&told).nth(1)?.split(' ').next()?.parse::<u64>().ok()?;
        assert_eq!(exit.code, Some(1), "{exit:?}");
        Some(number)
    });
    reported.expect("a number of MiB") + VARIATION
}

/// With little more than it needs, what an allocator reserves in advance fits, and nothing else
/// does. How much that is depends on the size of the program.
#[test]
fn a_server_starts_and_serves_under_a_limit_on_addresses() {
    let config = responding("");
    let least = needed(&config, 2);
    for megabytes in [least, least + 15, 270, 400, 1_200] {
        let server = Launch::new(&config).addresses(megabytes * 1024).start();
        for _ in 0..3 {
            let mut client = server.connect("web");
            client.send("GET /big HTTP/1.1\r\nhost: a\r\n\r\n");
            assert_eq!(client.read_response().body.len(), 8 << 20, "{megabytes} MiB");
        }
    }
}

#[test]
fn a_limit_that_is_too_low_is_named_with_what_is_needed() {
    let config = responding("").replace("workers: 2", "workers: 64");
    let needed = needed(&config, 64);
    // With that much it starts.
    let server = Launch::new(&config).addresses(needed * 1024).start();
    server.address("web");
}
