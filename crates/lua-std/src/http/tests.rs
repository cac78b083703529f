//! Server and client of one program talk to each other, and to bare connections.

use crate::testing::{output, run_here};

/// The beginning of every program here: `serve(handler[, conf])` gives a URL without its path.
const BEGIN: &str = r#"
    local silly, http, tcp = require "silly", require "silly.net.http", require "silly.net.tcp"
    local errno = require "silly.errno"
    local function serve(handler, conf)
        conf = conf or {}
        conf.addr, conf.handler = "127.0.0.1:0", handler
        local listener = assert(http.listen(conf))
        return "http://" .. listener.addr, listener
    end
    -- What a bare connection gets for these bytes, to its end.
    local function ask(url, bytes)
        local conn = assert(tcp.connect((url:gsub("http://", ""))))
        conn:write(bytes)
        local all = {}
        while true do
            local data = conn:read(1)
            if not data then return table.concat(all) end
            all[#all + 1] = data
        end
    end
"#;

fn check(program: &str, expected: &[&str]) {
    let lines = output(&format!("{BEGIN}{program}\nsilly.exit(0)"));
    assert_eq!(lines, expected);
}

#[test]
fn a_handler_reads_the_request_and_responds() {
    check(
        r#"
        local url = serve(function(stream)
            say(stream.method, stream.path, stream.query.a, stream.query["b c"], stream.version)
            say(stream.scheme, stream.remoteaddr:match("^127%.0%.0%.1:%d+$") ~= nil)
            say(stream.header["x-one"], table.concat(stream.header["x-two"], "|"))
            local body = stream:readall()
            local cookies = { "a=1", "b=2" }
            stream:respond(201, { ["content-type"] = "text/plain", ["set-cookie"] = cookies })
            stream:write("got ")
            stream:closewrite(body)
        end)
        local answer = assert(http.post(url .. "/p/q?a=1%202&b+c=d", {
            -- The interim response of the server is not the response.
            ["X-One"] = 1, ["X-Two"] = { "x", "y" }, expect = "100-continue",
        }, "body"))
        say(answer.status, answer.body, answer.header["content-length"])
        say(answer.header["content-type"], table.concat(answer.header["set-cookie"], "|"))
        "#,
        &["POST /p/q 1 2 d HTTP/1.1", "http true", "1 x|y", "201 got body 8", "text/plain a=1|b=2"],
    );
}

#[test]
fn every_method_arrives_and_a_head_has_no_body() {
    check(
        r#"
        local url = serve(function(stream)
            stream:respond(200, { ["content-length"] = 5 })
            if stream.method ~= "HEAD" then stream:closewrite(stream.method:sub(1, 5)) end
        end)
        for _, method in ipairs { "PATCH", "TRACE", "DELETE", "OPTIONS", "PURGE" } do
            local stream = assert(http.request(method, url .. "/"))
            stream:closewrite()
            say(stream:readall(), stream.status)
        end
        local stream = assert(http.request("HEAD", url .. "/"))
        say(stream:readall(), stream.status, stream.header["content-length"])
        "#,
        &["PATCH 200", "TRACE 200", "DELET 200", "OPTIO 200", "PURGE 200", " 200 5"],
    );
}

#[test]
fn a_handler_error_is_500_and_the_server_continues() {
    check(
        r#"
        local url = serve(function(stream)
            if stream.path == "/now" then error("at once") end
            if stream.path == "/later" then require "silly.time".sleep(1) error("later") end
            if stream.path == "/cut" then
                stream:respond(200)
                stream:write("begun")
                stream:flush()
                error("in the middle")
            end
            stream:respond(200)
        end)
        for _, path in ipairs { "/now", "/later", "/fine" } do
            say(assert(http.get(url .. path)).status)
        end
        say(http.get(url .. "/cut"))
        "#,
        &["500", "500", "200", "nil End of file (10004)"],
    );
}

#[test]
fn bodies_stream_both_ways_at_once() {
    check(
        r#"
        local url = serve(function(stream)
            stream:respond(200)
            while true do
                local piece = stream:read(3)
                if not piece then break end
                stream:write("<" .. piece .. ">")
                stream:flush()
            end
            stream:closewrite("", { ["x-end"] = "yes" })
        end)
        local stream = assert(http.request("POST", url .. "/"))
        stream:write("abc")
        say(stream:read(5), stream.status)
        stream:write("defg")
        say(stream:read(5))
        stream:closewrite()
        say(stream:read(9))
        say(stream:read(9))
        say(stream.trailer and stream.trailer["x-end"])
        "#,
        &["<abc> 200", "<def> nil", "<g> nil", "nil End of file (10004)", "yes"],
    );
}

#[test]
fn much_written_waits_for_its_reader() {
    check(
        r#"
        local written = 0
        local url = serve(function(stream)
            stream:respond(200, { ["content-length"] = 8 << 20 })
            local piece = ("x"):rep(1 << 16)
            for _ = 1, 128 do
                assert(stream:write(piece))
                written = written + #piece
            end
        end)
        local stream = assert(http.request("GET", url .. "/"))
        -- The handler has run until it had to wait, or to its end.
        stream:waitresponse()
        say(written < 8 << 20)
        say(#stream:readall(), written == 8 << 20)
        "#,
        &["true", "8388608 true"],
    );
}

#[test]
fn limits_and_time_outs_of_the_server() {
    check(
        r#"
        local url = serve(function(stream)
            say(stream:readall())
            stream:respond(200)
        end, { max_body = 10, head_timeout = 50 })
        say(assert(http.post(url .. "/", nil, ("x"):rep(11))).status)
        say(assert(http.post(url .. "/", nil, ("x"):rep(10))).status)
        local host = "GET / HTTP/1.1\r\nHost: a\r\n"
        say(ask(url, host .. "\tfolded: x\r\n\r\n"):match("^HTTP/1.1 (%d+)"))
        say(ask(url, host):match("^HTTP/1.1 (%d+)"))
        say(ask(url, host .. "Transfer-Encoding: gzip, chunked\r\n\r\n"):match("^HTTP/1.1 (%d+)"))
        say(ask(url, host .. ("x: y\r\n"):rep(10000)):match("^HTTP/1.1 (%d+)"))
        "#,
        &["413", "xxxxxxxxxx", "200", "400", "408", "501", "431"],
    );
}

#[test]
fn a_client_that_waits_for_100_gets_it_when_the_body_is_read() {
    check(
        r#"
        local url = serve(function(stream)
            stream:respond(200, { connection = "close" })
            stream:closewrite(stream:readall())
        end)
        local conn = assert(tcp.connect((url:gsub("http://", ""))))
        conn:write("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        say((conn:read("\r\n\r\n"):gsub("\r\n", "|")))
        conn:write("hi")
        say(conn:read("\r\n\r\n"):match("^[^\r]+"), conn:read(2))
        "#,
        &["HTTP/1.1 100 Continue||", "HTTP/1.1 200 OK hi"],
    );
}

#[test]
fn a_gzipped_response_comes_out_plain() {
    check(
        r#"
        local gzip = require "silly.compress.gzip"
        local url = serve(function(stream)
            say(stream.header["accept-encoding"])
            stream:respond(200, { ["content-encoding"] = "gzip" })
            local bad = stream.path == "/bad" and ("no gzip "):rep(9)
            stream:closewrite(bad or gzip.compress(("abc"):rep(1000)))
        end)
        local answer = assert(http.get(url .. "/"))
        say(#answer.body, answer.header["content-encoding"])
        say(http.get(url .. "/bad"))
        "#,
        &["gzip", "3000 nil", "gzip", "nil the compressed body is damaged"],
    );
}

#[test]
fn connections_are_reused() {
    check(
        r#"
        local peers, count = {}, 0
        local url = serve(function(stream)
            if not peers[stream.remoteaddr] then count = count + 1 end
            peers[stream.remoteaddr] = true
            stream:respond(200)
            stream:closewrite("x")
        end)
        local client = http.newclient { max_idle_per_host = 1 }
        for _ = 1, 10 do assert(client:get(url .. "/")) end
        say(count)
        local none = http.newclient { max_idle_per_host = 0 }
        for _ = 1, 3 do assert(none:get(url .. "/")) end
        say(count)
        "#,
        &["1", "4"],
    );
}

#[test]
fn redirects_are_followed_up_to_the_limit() {
    check(
        r#"
        local other = serve(function(stream)
            local header = stream.header
            stream:respond(200)
            stream:closewrite(table.concat({ stream.method, tostring(header.authorization),
                tostring(header["content-type"]), tostring(header.via) }, " "))
        end)
        local url = serve(function(stream)
            local status, to = stream.path:match("^/(%d+)/?(.*)$")
            if status then
                local location = to == "" and "../end" or "/" .. to
                if to == "other" then location = other .. "/" end
                stream:respond(tonumber(status), { location = stream.query.to or location })
                stream:closewrite("gone on")
                return
            end
            stream:respond(200)
            stream:closewrite(table.concat({ stream.method, stream.path,
                tostring(stream.header.authorization), tostring(stream.header["content-type"]),
                stream:readall() }, " "))
        end)
        local client = http.newclient { redirects = 2 }
        local header = { Authorization = "me", ["Content-Type"] = "text/plain" }
        for _, status in ipairs { 301, 302, 303, 307, 308 } do
            say(client:post(url .. "/" .. status, header, "body").body)
        end
        local answer = client:get(url .. "/302/307/other", header)
        say(answer.status, answer.body)
        say(answer.url == other .. "/")
        say(client:get(url .. "/302/302/302/end"))
        say(client:get(url .. "/302?to=https://127.0.0.1:1/"))
        say(http.get(url .. "/302").status)
        say(pcall(http.newclient, { redirects = 21 }))
        "#,
        &[
            "GET /end me nil ",
            "GET /end me nil ",
            "GET /end me nil ",
            "POST /end me text/plain body",
            "POST /end me text/plain body",
            "200 GET nil text/plain nil",
            "true",
            "nil too many redirects",
            "nil Connection refused (111)",
            "302",
            "false bad argument #1 to 'newclient' (redirects: 0 to 20 expected)",
        ],
    );
}

#[test]
fn what_cannot_be_reached_or_takes_too_long_has_a_reason() {
    check(
        r#"
        local url, listener = serve(function(stream) require "silly.time".sleep(100000) end)
        local client = http.newclient { read_timeout = 20 }
        say(client:get(url .. "/"))
        local stream = client:request("GET", url .. "/")
        say(stream:waitresponse(5))
        say(stream:close())
        say(stream:close())
        say(http.newclient({ insecure = true }):get("https://127.0.0.1:1/"))
        say(http.get("nonsense"))
        listener:close()
        say(select(2, http.get("http://127.0.0.1:1/")) == errno.CONNREFUSED)
        say(pcall(http.get))
        say(pcall(http.listen, { addr = "127.0.0.1:0" }))
        "#,
        &[
            "nil Connection timed out (110)",
            "false Connection timed out (110)",
            "true nil",
            "false Socket is closed (10003)",
            "nil Connection refused (111)",
            "nil \"nonsense\" is not a URL",
            "true",
            "false bad argument #1 to 'get' (string expected, got nil)",
            "false bad argument #1 to 'listen' (handler is not a function)",
        ],
    );
}

#[test]
fn streams_have_their_connection_and_its_end() {
    check(
        r#"
        local url = serve(function(stream)
            say(stream.conn.remoteaddr == stream.remoteaddr, stream.conn:isalive(), stream.eof)
            if stream.path == "/broken" then
                stream:respond(200)
                stream:write("part")
                stream:flush()
                say(stream.conn:close())
                return
            end
            stream:readall()
            say(stream.eof)
            stream:respond(200)
            stream:closewrite("whole")
        end)
        local stream = http.request("POST", url .. "/", { ["content-length"] = 4 })
        say("http://" .. stream.conn.remoteaddr == url, stream.conn:isalive(), stream.eof)
        stream:write("body")
        say(stream:read(100), stream.eof, stream.conn == stream.conn)
        say(stream.conn:close(), stream.conn:isalive())
        say(http.get(url .. "/broken"))
        "#,
        &[
            "true true false",
            "true true false",
            "true",
            "whole true true",
            "true false",
            "true true true",
            "true nil",
            "nil End of file (10004)",
        ],
    );
}

#[test]
fn a_listener_ends_with_its_vm() {
    let (told, refused) = net::worker::block_on_local(async {
        let listening = format!("{BEGIN}say((serve(function() end))) silly.exit()");
        let (_, told) = run_here(&listening).await;
        let program = format!("{BEGIN}say(http.get('{}/')) silly.exit()", told[0]);
        (told, run_here(&program).await.1)
    });
    assert_eq!(refused, ["nil Connection refused (111)"], "{told:?}");
}

#[test]
fn a_handler_is_notified_when_its_client_has_gone() {
    check(
        r#"
        local told = require "silly.sync.channel".new()
        local url = serve(function(stream)
            told:push("began")
            told:push(select(2, stream:read(1)))
        end)
        local conn = assert(tcp.connect((url:gsub("http://", ""))))
        conn:write("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
        say(told:pop())
        conn:close()
        say(told:pop())
        "#,
        &["began", "Socket is closed (10003)"],
    );
}

#[test]
fn texts_of_urls_and_pages() {
    check(
        r#"
        local helper = require "silly.net.http.helper"
        say(helper.urlencode("a b/ü~"), helper.urlencode { b = 2, a = { "x", "&" } })
        say(helper.urldecode("a+b%2f%zz"))
        say(helper.parseurl("http://a.example/p?q#f"))
        say(helper.parseurl("https://[::1]:8443"))
        say(helper.parseurl("nonsense"))
        say(helper.parseurl("ftp://a.example/"))
        local path, query = helper.parsetarget("/p?a=1+2&b")
        say(path, query.a, query.b == "", (helper.parsetarget("?x=1")))
        say(helper.htmlunescape("&lt;b&gt;&nbsp;&amp;amp; &#228;&#xE4; &unknown; &#0;"))
        "#,
        &[
            "a%20b%2F%C3%BC~ a=x&a=%26&b=2",
            "a b/%zz",
            "http a.example 80 /p?q true",
            "https ::1 8443 / false",
            "nil Invalid url",
            "nil Unsupported scheme",
            "/p 1 2 true /",
            "<b> &amp; ää &unknown; &#0;",
        ],
    );
}

#[test]
fn a_stream_that_is_closed_wakes_its_reader() {
    check(
        r#"
        local task, channel = require "silly.task", require "silly.sync.channel"
        local url = serve(function(stream)
            stream:respond(200)
            if stream.path == "/other" then return end
            stream:write("abc")
            stream:flush()
            stream:read(1)
        end)
        for _, protocol in ipairs { "http/1.1", "h2" } do
            local client = http.newclient { alpnprotos = { protocol } }
            local stream, done = assert(client:request("POST", url)), channel.new()
            stream:write("")
            say(stream:read(3), stream.version)
            task.fork(function() done:push(table.pack(stream:read(1))[2]) end)
            -- The other coroutine waits before this request has its response.
            assert(client:get(url .. "/other"))
            stream:close()
            say(done:pop(5000))
        end
        "#,
        &["abc HTTP/1.1", "Socket is closed (10003)", "abc HTTP/2", "Socket is closed (10003)"],
    );
}

#[test]
fn both_sides_speak_http2() {
    check(
        r#"
        local task, channel = require "silly.task", require "silly.sync.channel"
        local url, listener = serve(function(stream)
            say(stream.version, stream.method, stream.path, stream.query.a, stream.header["x-a"])
            if stream.path == "/echo" then
                stream:respond(200, { ["x-b"] = "c" })
                for piece in function() return (stream:read(3)) end do
                    stream:write(piece:upper())
                    stream:flush()
                end
                stream:closewrite("", { ["x-sum"] = stream.trailer and stream.trailer["x-end"] })
            elseif stream.path == "/large" then
                stream:respond(200)
                stream:closewrite(("0123456789"):rep(100000))
            end
        end)
        local client = http.newclient { alpnprotos = { "h2" } }
        local stream = assert(client:request("PUT", url .. "/echo?a=1", { ["x-a"] = "b" }))
        stream:write("abc")
        say(stream:read(3), stream.version, stream.status, stream.header["x-b"])
        stream:closewrite("de", { ["x-end"] = "5" })
        say(stream:readall(), stream.trailer["x-sum"], stream.eof)
        say(#assert(client:get(url .. "/large")).body)
        -- Several requests share a connection, and one that is closed ends alone.
        local open = assert(client:request("POST", url .. "/echo"))
        open:write("xyz")
        say(open:read(3))
        local done = channel.new()
        for _ = 1, 3 do task.fork(function() done:push(#client:get(url .. "/large").body) end) end
        say(done:pop(), done:pop(), done:pop())
        open:close()
        say(open:read(1))
        say(client:get(url .. "/large").status, listener:stat().accepted)
        "#,
        &[
            "HTTP/2 PUT /echo 1 b",
            "ABC HTTP/2 200 c",
            "DE 5 true",
            "HTTP/2 GET /large nil nil",
            "1000000",
            "HTTP/2 POST /echo nil nil",
            "XYZ nil",
            "HTTP/2 GET /large nil nil",
            "HTTP/2 GET /large nil nil",
            "HTTP/2 GET /large nil nil",
            "1000000 1000000 1000000",
            "nil Socket is closed (10003)",
            "HTTP/2 GET /large nil nil",
            "200 1",
        ],
    );
}
