//! Many connections, and peers that are rude.

use std::io::{Read, Write};

use super::{ECHO, Program, ask, connect};

/// Resident memory of a process, in bytes.
fn resident(id: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("a process");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    kib.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

#[test]
fn ten_thousand_idle_connections_take_twelve_kib_each_and_respond() {
    let (process, address) = Program::new(ECHO).serve(&[]);
    assert_eq!(ask(&mut connect(address), "warm\n"), "warm\n");
    let mut clients: Vec<_> = (0..10_000).map(|_| connect(address)).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let line = format!("{index}\n");
        assert_eq!(ask(client, &line), line);
    }
    // With the memory of the process itself: some of it is given back after the start.
    let each = resident(process.id()) / clients.len();
    assert!(each <= 12 * 1024, "{each} bytes for a connection and its coroutine");
}

#[test]
fn an_unread_flood_is_held_back() {
    let text = "local tcp, task = require 'silly.net.tcp', require 'silly.task'
        local logger = require 'silly.logger'
        local listener = tcp.listen('127.0.0.1:0', function(conn)
            local line = conn:read('\\n')
            if line ~= 'flood\\n' then return conn:write(line) end
            conn:write('go\\n') task.wait()
        end)
        logger.info('listening ' .. listener.addr)";
    let (process, address) = Program::new(text).serve(&[]);
    let mut flood = connect(address);
    assert_eq!(ask(&mut flood, "flood\n"), "go\n");
    let before = resident(process.id());
    flood.set_nonblocking(true).expect("a socket");
    let piece = vec![b'x'; 1 << 20];
    let mut sent = 0;
    let mut refused = 0;
    // What the kernels hold and the limit take some MiB; then nothing goes any more.
    while sent < 512 << 20 && refused < 50 {
        match flood.write(&piece) {
            Ok(count) => (sent, refused) = (sent + count, 0),
            Err(_) => {
                refused += 1;
                // Other clients are served in between, which also gives the program its time.
                assert_eq!(ask(&mut connect(address), "other\n"), "other\n");
            }
        }
    }
    assert!(refused > 0, "{sent} bytes were taken");
    let grown = resident(process.id()).saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes more for {sent} unread bytes");
}

#[test]
fn peers_that_vanish_leave_nothing() {
    let (process, address) = Program::new(ECHO).serve(&[]);
    let descriptors =
        || std::fs::read_dir(format!("/proc/{}/fd", process.id())).expect("a process").count();
    assert_eq!(ask(&mut connect(address), "warm\n"), "warm\n");
    let before = descriptors();
    for round in 0..300 {
        let mut client = connect(address);
        client.write_all(b"half a li").expect("sent");
        if round % 2 == 0 {
            assert_eq!(ask(&mut client, "ne\n"), "half a line\n");
        }
    }
    scenarios::eventually("the descriptors are closed", || {
        // Another exchange makes the program run and see that the others are gone.
        assert_eq!(ask(&mut connect(address), "turn\n"), "turn\n");
        descriptors() <= before
    });
    let mut rest = Vec::new();
    let mut client = connect(address);
    client.shutdown(std::net::Shutdown::Write).expect("a socket");
    client.read_to_end(&mut rest).expect("the program closes");
    assert!(rest.is_empty());
}
