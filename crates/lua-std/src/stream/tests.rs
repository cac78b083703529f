//! Pipelines: their output, and their ends.

use crate::testing::output;

const HEAD: &str = r#"
    local silly, task, time = require "silly", require "silly.task", require "silly.time"
    local stream, fs, tcp = require "tide.stream", require "tide.fs", require "silly.net.tcp"
    --- Pieces of n bytes.
    local function pieces(text, n)
        local at = 1
        return stream.from(function()
            if at > #text then return nil end
            at = at + n
            return text:sub(at - n, at - 1)
        end)
    end
"#;

fn with_stream(program: &str) -> Vec<String> {
    output(&format!("{HEAD}{program}\nsilly.exit()"))
}

#[test]
fn what_is_packed_comes_back_however_it_is_cut() {
    let program = r#"
        local text = ("line of text\r\n"):rep(5000) .. "end"
        for _, n in ipairs{ 1, 7, 4096, 100000 } do
            for _, way in ipairs{ "gzip gunzip", "br unbr", "zstd unzstd", "base64 unbase64" } do
                local to, from = way:match("(%w+) (%w+)")
                local there, back = stream[to](), stream[from]()
                local got, why = stream.run(pieces(text, n) | there | back | stream.totext())
                if got ~= text then say(n, way, why) end
            end
            local lines = (pieces(text, n) | stream.lines() | stream.tolist()):run()
            say(#lines, lines[1], lines[5001])
        end
        local packed = (stream.text(text) | stream.gzip() | stream.totext()):run()
        say(#packed < 1000, stream.run(stream.text(packed) | stream.gunzip(100) | stream.totext()))
        say(stream.run(stream.text("a\n\nb") | stream.lines(1) | stream.tolist()) [2] == "")
        say(stream.run(stream.text("abc") | stream.lines(2) | stream.tolist()))
        say(stream.run(stream.text("abc*") | stream.unbase64() | stream.totext()))
    "#;
    let output = with_stream(program);
    assert_eq!(output[..4], ["5001 line of text end"; 4]);
    assert!(output[4].starts_with("true nil") && output[4].contains("larger"), "{output:?}");
    assert_eq!(output[5..7], ["true", "nil a line is longer than 2 bytes"]);
    assert!(output[7].starts_with("nil "), "{output:?}");
}

#[test]
fn stages_and_early_ends() {
    let program = r#"
        local closed = 0
        local function numbers()
            local n = 0
            local function close() closed = closed + 1 end
            return stream.from(function() n = n + 1 return n end, close)
        end
        local odd = stream.filter(function(n) return n % 2 == 1 end)
        odd = odd | stream.map(function(n) return n * 10 end)
        local list = stream.run(numbers() | odd | stream.take(3) | stream.tolist())
        say(table.concat(list, " "), closed)
        say(stream.run(numbers() | stream.each(function(n) return n < 4 end)), closed)
        local failing = stream.map(function() return nil, "no" end)
        say(stream.run(numbers() | failing | stream.tolist()))
        local raising = stream.each(function() error("broken", 0) end)
        say(pcall(stream.run, numbers() | raising), closed)
        local sum = 0
        for n in (numbers() | stream.take(4)):pieces() do sum = sum + n end
        say(sum, closed)
        local values = stream.run(stream.text('{"a":1}\n\n[2]\n') | stream.json() | stream.tolist())
        say(values[1].a, values[2][1], #values)
        say(stream.run(stream.text('{}\n{\n') | stream.json() | stream.tolist()))
        say(stream.run(stream.from(function() return nil, "torn" end) | stream.totext()))
        say(pcall(function() return stream.totext() | stream.gzip() end))
    "#;
    let output = with_stream(program);
    assert_eq!(output[..6], ["10 30 50 1", "4 2", "nil no", "false 4", "10 5", "1 2 2",]);
    assert!(output[6].starts_with("nil line 2: "), "{output:?}");
    assert_eq!(output[7], "nil torn");
    assert!(output[8].starts_with("false"), "{output:?}");
}

#[test]
fn files_and_connections_hold_their_source_back() {
    let program = r#"
        local path = fs.temp()
        local text = ("0123456789"):rep(300000)
        local written = stream.run(stream.text(text) | stream.gzip() | stream.tofile(path))
        say(written == fs.stat(path).size)
        local listener
        local ready = false
        listener = tcp.listen{ addr = "127.0.0.1:0", accept = function(conn)
            while not ready do time.sleep(5) end
            local got = stream.run(stream.conn(conn, 60000) | stream.totext())
            say(got == text:rep(10))
            fs.remove(path)
            silly.exit()
        end }
        local made = 0
        local conn = tcp.connect(listener.addr)
        task.fork(function()
            local source = stream.from(function()
                made = made + 1
                if made <= 10 then return text end
            end)
            say(stream.run(source | stream.toconn(conn)))
            conn:close()
        end)
        time.sleep(50)
        say(made < 10)
        ready = true
        say(stream.run(stream.file(path .. "-none") | stream.totext()))
        task.wait()
    "#;
    let output = with_stream(program);
    let expected = ["true", "true", "nil No such file or directory (2)", "30000000", "true"];
    assert_eq!(output, expected);
}
