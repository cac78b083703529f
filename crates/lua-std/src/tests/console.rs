//! The console, over its socket.

use super::scripts::program;

#[test]
fn a_console_listens_on_a_unix_socket_only() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        r#"
        local console, tcp = require "silly.console", require "silly.net.tcp"
        say(console {{ addr = "127.0.0.1:0" }})
        local addr = "unix:{}/console"
        local function hello(conn, name) return {{ "hi", name, tostring(conn:isalive()) }} end
        local function leave() end
        assert(console {{ addr = addr, cmd = {{ hello = hello, leave = leave }} }})
        require "silly.metrics.prometheus".counter("shop_orders_total"):add(3)
        local conn = tcp.connect(addr)
        conn:read("> ")
        local function asks(line)
            conn:write(line .. "\n")
            return (conn:read("\n> "):gsub("\n> $", ""):gsub("\n", "|"))
        end
        say(asks "ping")
        say(asks "HELLO bob")
        say(asks "nonsense")
        local info = asks "info"
        say(info:match("^pid %d"), info:match("|(shop_orders_total [^|]*)|"))
        for _, line in ipairs {{ "quit", "leave" }} do
            conn:write(line .. "\n")
            say(conn:read(1))
            conn = tcp.connect(addr)
            conn:read("> ")
        end
        "#,
        folder.path().display()
    );
    let output = program(&text);
    assert!(output[0].starts_with("nil a console listens on a Unix socket only"), "{output:?}");
    assert_eq!(output[1..4], ["PONG", "hi|bob|true", "no command NONSENSE; HELP lists them"]);
    assert!(output[4].starts_with("pid ") && output[4].ends_with("shop_orders_total 3"));
    assert_eq!(output[5..], ["nil End of file (10004)", "nil End of file (10004)"]);
}

#[test]
fn a_console_shows_sockets_and_profiles() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        r#"
        local console, tcp = require "silly.console", require "silly.net.tcp"
        local addr, file = "unix:{0}/console", "{0}/a.folded"
        assert(console {{ addr = addr }})
        local fd = require "silly.net".tcplisten("127.0.0.1:0", {{}})
        local conn = tcp.connect(addr)
        conn:read("> ")
        for _, line in ipairs {{
            "socket " .. fd, "socket 99", "socket",
            "profile allocations 0.001 " .. file, "profile cpu", "profile cpu 600 {0}/a.png",
        }} do
            conn:write(line .. "\n")
            say((conn:read("\n> "):gsub("\n> $", ""):gsub("\n", "|"):gsub("127.0.0.1:%d+", "ADDR")))
        end
        say(io.open(file, "rb") ~= nil)
        "#,
        folder.path().display()
    );
    let output = program(&text);
    assert_eq!(output[0], "tcp listener|address ADDR|unsent 0 bytes|reading yes");
    assert_eq!(output[1], "error: there is no socket 99");
    assert_eq!(output[2], "error: SOCKET needs the number of a socket of net");
    assert!(output[3].contains(" samples in "), "{output:?}");
    assert!(output[4].starts_with("error: PROFILE needs cpu or allocations"), "{output:?}");
    assert!(output[5].starts_with("error: the name of a profile ends in"), "{output:?}");
    assert_eq!(output[6], "true");
}
