//! Both sides in one program, with certificates of an authority of the test.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::testing::output;

/// Runs a program that has the authority `ca` and `pair(name)`, a certificate of `a.test`, `b.test`
/// or the expired `old.test` with its key.
fn program(text: &str) -> Vec<String> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut pairs = String::new();
    for name in ["a.test", "b.test", "old.test"] {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if name == "old.test" {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &issuer).unwrap().pem();
        let key = key.serialize_pem();
        pairs += &format!("[\"{name}\"] = {{ cert = [[{cert}]], key = [[{key}]] }},\n");
    }
    let prelude = format!(
        r#"
        local tls, tcp = require "silly.net.tls", require "silly.net.tcp"
        local http = require "silly.net.http"
        local ctx, websocket = require "silly.tls.ctx", require "silly.net.websocket"
        local errno, task, time = require "silly.errno", require "silly.task", require "silly.time"
        local ca, pairs_of = [[{}]], {{ {pairs} }}
        local function pair(name) return pairs_of[name] end
        local function serve(accept, conf)
            conf = conf or {{}}
            conf.addr, conf.accept = "127.0.0.1:0", accept
            conf.certs = conf.certs or {{ pair "a.test" }}
            local listener = assert(tls.listen(conf))
            return listener.addr, listener
        end
        local function connect(addr, options)
            options = options or {{}}
            options.ca, options.hostname = ca, options.hostname or "a.test"
            return tls.connect(addr, options)
        end
        "#,
        issuer.pem()
    );
    output(&format!("{prelude}{text}\nrequire 'silly'.exit()"))
}

#[test]
fn connections_read_write_and_end_as_those_of_tcp() {
    let text = r#"
        local addr = serve(function(conn, from)
            say(conn:alpnproto(), from == conn.remoteaddr)
            conn:write { "line 1\n", "line 2\r\n", "1234567" }
            say(conn:read(6), conn:read("\n"), conn:read(1))
            conn:write("half")
            conn:write(("x"):rep(5 << 20))
            say(conn:close(), conn:close())
        end, { alpnprotos = { "other", "echo" } })
        local conn = assert(connect(addr, { alpnprotos = { "echo" } }))
        say(conn:alpnproto(), conn:isalive(), conn.remoteaddr == addr)
        local first, second = conn:readline(), conn:read("\r\n")
        say(first == "line 1\n", second == "line 2\r\n", tls.read(conn, 7, 5000))
        say(conn:read(1, 5))
        tls.write(conn, "counted")
        conn:write("\n")
        conn:closewrite()
        say(conn:read(4), #conn:read(5 << 20))
        say(conn:read(1))
        say(tls.recvsize(conn), tls.sendsize(conn), tls.isalive(conn))
        say(conn:write("x"))
        say(tls.close(conn), conn:isalive())
        say(tcp.alpnproto(assert(tcp.connect(addr))))
    "#;
    let expected = [
        "echo true true",
        "echo true",
        "true true 1234567",
        "nil Connection timed out (110)",
        "counte d\n nil End of file (10004)",
        "true false Socket is closed (10003)",
        "half 5242880",
        "nil End of file (10004)",
        "0 0 false",
        "false Socket is closing (10002)",
        "true false",
        "nil",
    ];
    assert_eq!(program(text), expected);
}

#[test]
fn certificates_are_verified_unless_a_program_says_otherwise() {
    let text = r#"
        local addr = serve(function(conn) conn:write("hello\n") end)
        local function reason(options)
            local conn, err, detail = tls.connect(addr, options)
            return conn and conn:read("\n") or tostring(err == errno.TLS) .. ": " .. detail
        end
        say(reason { hostname = "a.test", ca = ca })
        say(reason { hostname = "a.test" })
        say(reason { hostname = "b.test", ca = ca })
        say(reason { ca = ca })
        say(reason { insecure = true })
        local shared = assert(ctx.client { ca = ca })
        local good = { hostname = "a.test", ctx = shared }
        local bad = { hostname = "b.test", ctx = shared }
        say(reason(good), (reason(bad)))
        local server = assert(ctx.server { pair "a.test" })
        addr = serve(function(conn) conn:write("hello\n") end, { ctx = server })
        say(reason { hostname = "a.test", ca = ca })
        say(tls.listen { addr = "127.0.0.1:0", accept = print, certs = { pair "old.test" } })
        say(tls.connect(addr, { ca = "nonsense" }))
        say(tls.connect(addr, { cert = "only" }))
        say(tls.connect(addr, { hostname = "not a name", insecure = true }))
        say(tls.connect("127.0.0.1:1", { insecure = true }))
    "#;
    let output = program(text);
    for (at, part) in [
        (0, "hello\n"),
        (1, "true: invalid peer certificate: UnknownIssuer"),
        (2, "true: invalid peer certificate: certificate not valid for name \"b.test\""),
        (3, "true: invalid peer certificate: certificate not valid for name \"127.0.0.1\""),
        (4, "hello\n"),
        (5, "hello\n true: invalid peer certificate: certificate not valid for name \"b.test\""),
        (6, "hello\n"),
        (7, "nil certs[1]: the certificate expired on 2002-01-01"),
        (8, "nil "),
        (9, "nil cert and key belong together"),
        (10, "nil \"not a name\" is not a host name"),
        (11, "nil Connection refused (111)"),
    ] {
        assert!(output[at].starts_with(part), "{at}: {output:?}");
    }
}

#[test]
fn certificates_are_replaced_for_later_handshakes() {
    let text = r#"
        local function echo(conn) conn:write(conn:read("\n")) end
        local addr, listener = serve(echo)
        local function says(name)
            local conn, err = connect(addr, { hostname = name })
            if not conn then return err end
            conn:write(name .. "\n")
            return conn:read("\n")
        end
        local old = assert(connect(addr))
        say(says "a.test", says "b.test" == errno.TLS)
        local mixed = { cert = pair("b.test").cert, key = pair("a.test").key }
        say(listener:reload { certs = { mixed } })
        say(says "a.test")
        say(tls.reload(listener, { certs = { pair "b.test" } }))
        say(says "b.test", says "a.test" == errno.TLS)
        say(listener:reload { alpnprotos = { "x" } }, says "b.test")
        old:write("old\n")
        say(old:read("\n"))
        listener:close()
        say(tls.listen { addr = "127.0.0.1:0", accept = echo, certs = {} })
        say(pcall(tls.listen, { addr = "127.0.0.1:0", certs = {} }))
        say(pcall(tls.listen, { addr = "127.0.0.1:0", accept = echo }))
        say(pcall(http.listen, { addr = "127.0.0.1:0", handler = echo, tls = true }))
    "#;
    let output = program(text);
    let expected = [
        "a.test\n true",
        "false certs[1]: the private key does not belong to the certificate",
        "a.test\n",
        "true nil",
        "b.test\n true",
        "true b.test\n",
        "old\n",
        "nil certs: no certificate",
    ];
    assert_eq!(output[..8], expected);
    assert!(output[8].contains("accept is not a function"), "{output:?}");
    for line in &output[9..] {
        assert!(line.contains("certs: table expected"), "{output:?}");
    }
    assert_eq!(output.len(), 11);
}

#[test]
fn silent_truncated_and_plain_peers() {
    let text = r#"
        -- A server that says nothing, and clients that say nothing or no TLS.
        local mute = assert(tcp.listen("127.0.0.1:0", function(conn) conn:read(100000) end))
        say(connect(mute.addr, { timeout = 20 }))
        local addr = serve(function() error "no handshake" end, { handshake_timeout = 20 })
        say(assert(tcp.connect(addr)):read(1))
        local plain = assert(tcp.connect(addr))
        plain:write("GET / HTTP/1.1\r\n\r\n")
        say(plain:readall() == nil)
        -- A connection that is cut after the handshake and one line.
        local served = serve(function(conn) conn:write("line\n") time.sleep(100000) end)
        local cutter
        local cut = assert(tcp.listen("127.0.0.1:0", function(front)
            local back = assert(tcp.connect(served))
            cutter = front
            task.fork(function()
                for data in function() return front:readall() end do back:write(data) end
                back:close()
            end)
            for data in function() return back:readall() end do front:write(data) end
        end))
        local conn = assert(connect(cut.addr))
        say(conn:read("\n"))
        cutter:close()
        say(conn:read(1))
        say(conn:write("x"))
    "#;
    let expected = [
        "nil Connection timed out (110)",
        "nil End of file (10004)",
        "true",
        "line\n",
        "nil TLS error (10005)",
        "false TLS error (10005)",
    ];
    let output: Vec<String> =
        program(text).iter().map(|line| line.trim_end_matches(" nil").to_owned()).collect();
    assert_eq!(output, expected);
}

#[test]
fn connections_in_use_change_to_tls() {
    let text = r#"
        local function serve_plain(accept)
            return assert(tcp.listen("127.0.0.1:0", accept)).addr
        end
        local addr = serve_plain(function(conn)
            say(conn:read("\n"))
            conn:write("go\n")
            local conf = { certs = { pair "a.test" }, timeout = 60000 }
            local same, err = tls.accept(conn, conf)
            if not same then return say("server", err) end
            say(same == conn, conn:read("\n"))
            conn:write("secret " .. ("x"):rep(100000) .. "\n")
            conn:close()
        end)
        local function begin(to)
            local conn = assert(tcp.connect(to or addr))
            conn:write("STARTTLS\n")
            say(conn:read("\n"))
            return conn
        end
        local conn = begin()
        say(tls.upgrade(conn, { ca = ca, hostname = "a.test" }) == conn)
        conn:write("hello\n")
        say(#conn:read("\n"), conn:read(1))
        -- The server's certificate is not of this name: both sides are told, and it is unusable.
        conn = begin()
        local ok, err, detail = tls.upgrade(conn, { ca = ca, hostname = "b.test" })
        say(ok, err == errno.TLS, detail:match("not valid for name"))
        say(conn:write("x"))
        say(conn:isalive(), conn:read(1))
        -- Bytes that came before the handshake are not of the session.
        local early = serve_plain(function(conn)
            conn:read("\n")
            conn:write("go\ninjected\n")
            conn:read(1)
        end)
        conn = begin(early)
        say(tls.upgrade(conn, { insecure = true }))
        say(conn:read("\n"))
        -- A server that is silent, and one that goes away.
        local mute = serve_plain(function(conn)
            conn:read("\n")
            conn:write("go\n")
            conn:read(100000)
        end)
        conn = begin(mute)
        say(tls.upgrade(conn, { insecure = true, timeout = 20 }))
        conn = begin(mute)
        task.fork(function() conn:read(1) end)
        time.sleep(0)
        say(tls.upgrade(conn, { insecure = true }))
        conn = begin(mute)
        task.fork(function() conn:close() end)
        say(tls.upgrade(conn, { insecure = true, timeout = 20 }))
        say(tls.upgrade(conn))
        say((select(2, pcall(tls.accept, begin(mute)))):match("table expected"))
    "#;
    let output = program(text);
    let output: Vec<&str> = output.iter().map(|line| line.trim_end_matches(" nil")).collect();
    let expected = [
        "STARTTLS\n",
        "go\n",
        "true",
        "true hello\n",
        "100008 nil End of file (10004)",
        "STARTTLS\n",
        "go\n",
        "nil true not valid for name",
        "false TLS error (10005)",
        "false nil TLS error (10005)",
        "server TLS error (10005)",
        "go\n",
        "nil Protocol error (71)",
        "injected\n",
        "go\n",
        "nil Connection timed out (110) timed out",
        "go\n",
        "nil Device or resource busy (16)",
        "go\n",
        "nil Connection timed out (110) timed out",
        "nil Socket is closed (10003)",
        "go\n",
        "table expected",
    ];
    assert_eq!(output, expected);
}

#[test]
fn https_and_wss() {
    let text = r#"
        local listener = assert(http.listen {
            addr = "127.0.0.1:0", tls = true, certs = { pair "a.test" },
            handler = function(stream)
                if stream.path == "/socket" then
                    local socket = assert(websocket.upgrade(stream))
                    socket:write(socket:read(), "text")
                    return
                end
                if stream.path == "/moved" then
                    return stream:respond(302, { location = "/there" })
                end
                stream:respond(200)
                stream:closewrite(stream.version .. " " .. stream.scheme .. " " .. stream:readall())
            end,
        })
        require "silly.net.dns"
        local url = "https://" .. listener.addr
        say((select(2, http.get(url))):match("UnknownIssuer"))
        say((select(2, http.newclient({ ca = ca }):get(url))):match("not valid for name"))
        local client = http.newclient { insecure = true, redirects = 1 }
        say(client:get(url).body, client:post(url, {}, "data").body)
        say(client:get(url .. "/moved").url == url .. "/there")
        local stream = client:request("GET", url)
        say(stream:waitresponse(), stream.version)
        local old = http.newclient { insecure = true, alpnprotos = { "http/1.1" } }
        stream = old:request("GET", url)
        say(stream:readall(), stream.version)
        say(http.newclient({ ca = "nonsense" }):get(url) == nil)
        local address = "wss://" .. listener.addr .. "/socket"
        local socket = assert(websocket.connect(address, nil, { insecure = true }))
        socket:write("hello", "text")
        say(socket:read())
        say((select(2, websocket.connect(address))):match("UnknownIssuer"))
        local shared = assert(http.listen {
            addr = "127.0.0.1:0", tls = true, ctx = assert(ctx.server { pair "a.test" }),
            handler = function(stream) stream:respond(200) stream:closewrite(stream.version) end,
        })
        say(client:get("https://" .. shared.addr).body)
    "#;
    let expected = [
        "UnknownIssuer",
        "not valid for name",
        "HTTP/2 https  HTTP/2 https data",
        "true",
        "true HTTP/2",
        "HTTP/1.1 https  HTTP/1.1",
        "true",
        "hello text",
        "UnknownIssuer",
        "HTTP/1.1",
    ];
    assert_eq!(program(text), expected);
}

#[test]
fn grpc_over_tls() {
    let text = r#"
        local grpc, registrar = require "silly.net.grpc", require "silly.net.grpc.registrar"
        local p = require "protoc".new()
        p:load([[
            syntax = "proto3"; message Note { string text = 1; }
            service Notes { rpc Get (Note) returns (Note); }
        ]], "notes.proto")
        local proto, methods = p.loaded["notes.proto"], registrar.new()
        methods:register(proto, "Notes", { Get = function(note) return note end })
        local server = assert(grpc.listen {
            addr = "127.0.0.1:0", tls = true, certs = { pair "a.test" }, registrar = methods,
        })
        local function get(tls)
            local conn <close> = assert(grpc.newclient { targets = { server.addr }, tls = tls })
            local note, err = grpc.newservice(conn, proto, "Notes"):Get({ text = "tea" }, 5000)
            return note and note.text or err
        end
        say(get { insecure = true })
        say(get(true):match "UnknownIssuer", get { ca = ca }:match "not valid for name")
        say(get(nil) ~= "tea")
    "#;
    assert_eq!(program(text), ["tea", "UnknownIssuer not valid for name", "true"]);
}
