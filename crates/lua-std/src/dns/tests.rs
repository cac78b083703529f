//! `net.dns` against a small DNS server in Lua.

use crate::testing::output;

#[test]
fn literals_hosts_and_invalid_names() {
    let program = r#"
        local dns, silly = require "silly.net.dns", require "silly"
        say(dns.lookup("127.0.0.1", dns.A))
        say(dns.lookup("localhost"))
        dns.sethosts("10.0.0.1 One one.example # a comment\n::1 one\n")
        say(dns.lookup("ONE"), dns.lookup("one", dns.AAAA), #dns.resolve("one.example"))
        say(dns.lookup("not a name"))
        say(dns.isname("::1"), dns.isname("a.example"))
        say(pcall(dns.lookup, "a", 5))
        silly.exit()
    "#;
    let expected = [
        "127.0.0.1",
        "127.0.0.1",
        "10.0.0.1 ::1 1",
        "nil cannot resolve \"not a name\": it is not a host name",
        "false true",
    ];
    let output = output(program);
    assert_eq!(output[..5], expected);
    assert!(output[5].contains("dns.A, dns.AAAA or dns.SRV expected"), "{output:?}");
}
/// A DNS server that logs each query as `NAME TYPE`, with `edns` if the query has an OPT record. It
/// knows A of `a.corp.example`, SRV of `_x._tcp.corp.example`, and does not respond to `silent`.
const SERVER: &str = r#"
    local udp, task, time = require "silly.net.udp", require "silly.task", require "silly.time"
    local dns, silly = require "silly.net.dns", require "silly"
    local server, queries = assert(udp.bind("127.0.0.1:0")), {}
    local function name_at(data, at)
        local labels = {}
        while data:byte(at) > 0 do
            local label
            label, at = string.unpack("s1", data, at)
            labels[#labels + 1] = label
        end
        return table.concat(labels, "."), at + 1
    end
    local function encoded(name)
        local labels = name:gsub("([^.]+)%.?", function(label) return ("s1"):pack(label) end)
        return labels .. "\0"
    end
    local records = {
        ["a.corp.example 1"] = { "\10\0\0\1", "\10\0\0\2" },
        ["_x._tcp.corp.example 33"] = {
            (">I2I2I2"):pack(20, 5, 8081) .. encoded("two.corp.example"),
            (">I2I2I2"):pack(10, 6, 8080) .. encoded("one.corp.example"),
        },
    }
    task.fork(function()
        while true do
            local data, from = server:recvfrom()
            local id, _, _, _, _, additional = (">I2I2I2I2I2I2"):unpack(data)
            local name, at = name_at(data, 13)
            local kind = (">I2"):unpack(data, at)
            local key = name:lower() .. " " .. kind
            queries[#queries + 1] = key .. (additional == 1 and " edns" or "")
            if name ~= "silent" then
                time.sleep(2)
                local answers, found = {}, records[key] or {}
                for _, rdata in ipairs(found) do
                    answers[#answers + 1] = (">I2I2I2I4s2"):pack(0xc00c, kind, 1, 60, rdata)
                end
                local flags = #found > 0 and 0x8180 or 0x8183
                server:sendto((">I2I2I2I2I2I2"):pack(id, flags, 1, #found, 0, 0)
                    .. data:sub(13, at + 3) .. table.concat(answers), from)
            end
        end
    end)
    local conf = { nameservers = { server.addr }, search = { "corp.example" } }
    conf.ndots, conf.timeout, conf.attempts = 1, 20, 1
    dns.conf(conf)
"#;

#[test]
fn only_the_requested_type_is_queried_and_concurrent_lookups_share_one_query() {
    let program = format!(
        r#"{SERVER}
        local group = require "silly.sync.waitgroup".new()
        for _ = 1, 3 do group:fork(function() say(dns.lookup("a.corp.example.")) end) end
        group:wait()
        say(table.concat(queries, ", "))
        say(#dns.resolve("a.corp.example."), #queries)
        say(dns.lookup("a.corp.example.", dns.AAAA) == nil, queries[2])
        silly.exit()
        "#
    );
    let expected = [
        "10.0.0.1",
        "10.0.0.1",
        "10.0.0.1",
        "a.corp.example 1 edns",
        "2 1",
        "true a.corp.example 28 edns",
    ];
    assert_eq!(output(&program), expected);
}

#[test]
fn search_list_services_and_time_outs() {
    let program = format!(
        r#"{SERVER}
        say(dns.lookup("a"), queries[1])
        local services = assert(dns.resolve("_x._tcp.corp.example.", dns.SRV))
        for _, one in ipairs(services) do say(one.priority, one.weight, one.port, one.target) end
        say(dns.lookup("_x._tcp.corp.example.", dns.SRV).target)
        say(dns.lookup("10.1.1.1", dns.SRV))
        say(dns.lookup("silent.", dns.A, 20))
        say(dns.lookup("unknown.example.", dns.A))
        say(pcall(dns.conf, {{ nameservers = {{ "nonsense" }} }}))
        -- A name with fewer dots is first one of the search list.
        for ndots = 1, 2 do
            conf.ndots, conf.search = ndots, {{ "corp" .. ndots .. ".example" }}
            dns.conf(conf)
            local before = #queries
            dns.lookup("b" .. ndots .. ".c", dns.A)
            say(table.concat(queries, ", ", before + 1))
        end
        silly.exit()
        "#
    );
    let output = output(&program);
    let expected = [
        "10.0.0.1 a.corp.example 1 edns",
        "10 6 8080 one.corp.example",
        "20 5 8081 two.corp.example",
        "one.corp.example",
        "10.1.1.1",
        "nil Connection timed out (110)",
        "nil cannot resolve unknown.example.: it has no address",
    ];
    assert_eq!(output[..7], expected);
    assert!(output[7].contains("not an address"), "{output:?}");
    let both = ["b1.c 1 edns, b1.c.corp1.example 1 edns", "b2.c.corp2.example 1 edns, b2.c 1 edns"];
    assert_eq!(output[8..], both);
}
