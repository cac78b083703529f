//! `keepalive` of a listener: the kernel asks a silent client whether it is still there. What
//! `/proc/net/tcp` says of our end of the connection is its timer. (`nodelay` shows nowhere.)

use crate::setup::responding;
use scenarios::{Tidegate, eventually_some};
use std::fs;

const TICKS_PER_SECOND: u64 = 100;

/// Which timer runs for the server's end of the connection between these ports, and for how many
/// ticks: 0 is none, 1 sends again, 2 asks. `None` if the table does not have the connection: the
/// kernel may pass over a row while others come and go.
fn timer(server: u16, client: u16) -> Option<(u64, u64)> {
    let table = fs::read_to_string("/proc/net/tcp").expect("a table");
    let ends = [format!(":{server:04X}"), format!(":{client:04X}")];
    let row = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|row| {
        row.get(1).is_some_and(|local| local.ends_with(&ends[0]))
            && row.get(2).is_some_and(|remote| remote.ends_with(&ends[1]))
    });
    let (kind, ticks) = row?[5].split_once(':').expect("a timer");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    Some((number(kind), number(ticks)))
}

#[test]
fn a_silent_client_is_probed_after_the_time_that_is_set() {
    for (setting, kind) in [("", 0), (", keepalive: 60s", 2)] {
        let bind = "bind: \"127.0.0.1:0\"";
        let config = responding("").replacen(bind, &format!("{bind}{setting}"), 1);
        let server = Tidegate::start(&config);
        let mut client = server.connect("web");
        client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().status, 200);
        let ports = (server.address("web").port(), client.local_address().port());
        // Until the client's kernel has confirmed the response, the timer is that of sending again.
        let ticks = eventually_some(&format!("{setting}: a timer of kind {kind}"), || {
            let (running, ticks) = timer(ports.0, ports.1)?;
            (running == kind).then_some(ticks)
        });
        let wanted = if kind == 0 { 0..=0 } else { 1..=60 * TICKS_PER_SECOND };
        assert!(wanted.contains(&ticks), "{setting}: {ticks} ticks");
    }
}
