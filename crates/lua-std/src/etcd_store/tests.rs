//! What needs no server; a real one is in `tests/interop/etcd.rs`.

use crate::testing::output;

#[test]
fn options_and_requests_are_checked() {
    let program = r##"
        local etcd = require "silly.store.etcd"
        local function raised(call, ...)
            local ok, err = pcall(call, ...)
            say(not ok and tostring(err):gsub("^.-bad argument", "bad argument"):match("[^\n]*"))
        end
        raised(etcd.newclient)
        raised(etcd.newclient, {})
        raised(etcd.newclient, { endpoints = {} })
        raised(etcd.newclient, { endpoints = { "a/b" } })
        raised(etcd.newclient, { endpoints = { "a" }, timeout = "long" })
        raised(etcd.newclient, { endpoints = { "a" }, password = "secret" })
        raised(etcd.newclient, { endpoints = { "a" }, tls = { ca = "no pem" } })
        local client = etcd.newclient { endpoints = { "127.0.0.1:1" }, retry = 1 }
        raised(client.get, client, {})
        raised(client.get, client, { key = "a", limit = "many" })
        raised(client.get, client, { key = "a", sort_order = "UP" })
        raised(client.put, client, "a")
        raised(client.txn, client, { success = { {} } })
        raised(client.txn, client, { compare = { { key = "a", value = "1", version = 1 } } })
        raised(client.grant, client, {})
        raised(client.watch, client, { key = "a", filters = { "NONE" } })
        local nested = { success = {} }
        for _ = 1, 20 do nested = { success = { { txn = nested } } } end
        raised(client.txn, client, nested)
        require "silly".exit()
    "##;
    let newclient = "bad argument #1 to 'newclient'";
    let expected = [
        format!("{newclient} (table expected, got nil)"),
        format!("{newclient} (endpoints: list of strings expected)"),
        "etcd: no endpoint".to_owned(),
        format!("{newclient} (endpoints: \"http://a/b\": an endpoint of etcd has no path)"),
        format!("{newclient} (timeout: a string is unexpected)"),
        format!("{newclient} (password: user is missing)"),
    ];
    let output = output(program);
    for (line, expected) in output.iter().zip(&expected) {
        assert!(line.contains(expected.as_str()), "{line}: {expected}");
    }
    assert_eq!(
        output[7..],
        [
            "bad argument #1 to 'get' (key: string expected)",
            "bad argument #1 to 'get' (limit: a string is unexpected)",
            "bad argument #1 to 'get' (sort_order: one of NONE, ASCEND, DESCEND expected)",
            "bad argument #1 to 'put' (table expected, got string)",
            "bad argument #1 to 'txn' (operation: one of get, put, delete, txn expected)",
            "bad argument #1 to 'txn' (compare: one of version, create_revision, mod_revision, \
         value, lease expected)",
            "bad argument #1 to 'grant' (TTL: integer expected)",
            "bad argument #1 to 'watch' (filters: one of NOPUT, NODELETE expected)",
            "bad argument #1 to 'txn' (txn: too many nested transactions)",
        ]
    );
}

#[test]
fn a_lock_that_is_not_gained_leaves_no_key() {
    let program = r##"
        local client = require "silly.store.etcd".newclient { endpoints = { "127.0.0.1:1" } }
        function client:txn() return { succeeded = true } end
        function client:delete(request) say("deleted", request.key) end
        for _, kvs in ipairs { false, {} } do
            function client:get()
                if not kvs then return nil, "no response" end
                return { kvs = kvs, header = { revision = 7 } }
            end
            say(client:lock(1, "shop", "me"))
        end
        require "silly".exit()
    "##;
    assert_eq!(
        output(program),
        [
            "deleted shop/me",
            "false no response",
            "deleted shop/me",
            "false etcd: the lease of the lock has ended",
        ]
    );
}

#[test]
fn without_a_server_calls_fail_and_a_closed_client_is_over() {
    let program = r##"
        local etcd, task = require "silly.store.etcd", require "silly.task"
        local client = etcd.newclient { endpoints = { "127.0.0.1:1" }, retry = 1, timeout = 60000 }
        local res, err, code = client:put { key = "a", value = "1" }
        say(res, err:match("refused") or err, code)
        say(client:lost(7))
        task.fork(function() client:close() end)
        say(client:watch { key = "a" })
        say(client:get { key = "a" })
        require "silly".exit()
    "##;
    let closed = "nil Socket is closed (10003)";
    assert_eq!(
        output(program),
        [
            "nil refused unavailable",
            "nil etcd: the client does not renew this lease",
            // Without the code and the revision of an error of etcd.
            "nil Socket is closed (10003) nil nil",
            closed,
        ]
    );
}
