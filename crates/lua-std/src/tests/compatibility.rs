//! Forms of calls that Silly's programs use.

use super::scripts::program;

#[test]
fn methods_are_functions_of_their_modules() {
    let text = r#"
        local function module(name) return require("silly." .. name) end
        local buffer, queue, list = module "adt.buffer", module "adt.queue", module "adt.list"
        local b = buffer.new()
        buffer.append(b, "a\nb")
        say(buffer.size(b), buffer.read(b, "\n") == "a\n", buffer.dump(b), buffer.readall(b))
        buffer.clear(b)
        local q = queue.new()
        say(queue.push(q, 1), queue.size(q), queue.pop(q), queue.clear(q))
        local l = list.new()
        list.pushback(l, 1) list.pushfront(l, 2)
        say(list.front(l), list.back(l), list.size(l), list.popback(l), list.remove(l, 2))
        local channel, mutex = module "sync.channel", module "sync.mutex"
        local c, m = channel.new(), mutex.new()
        say(channel.push(c, "x"), channel.pop(c), channel.close(c), channel.pop(c))
        mutex.lock(m, "k"):unlock()
        local waitgroup, singleflight = module "sync.waitgroup", module "sync.singleflight"
        local w, s = waitgroup.new(), singleflight.new(function(key) return key .. "!" end)
        waitgroup.fork(w, function() say(singleflight.call(s, "key")) end)
        waitgroup.wait(w)
        local hash, cipher = module "crypto.hash", module "crypto.cipher"
        local pkey = module "crypto.pkey"
        local h = hash.new("md5")
        hash.update(h, "a")
        say(hash.final(h) == hash.hash("md5", "a"), hash.digest(h, "b") == hash.hash("md5", "b"))
        local key, iv = ("k"):rep(16), ("i"):rep(16)
        local sealed = cipher.final(cipher.encryptor("aes-128-cbc", key, iv), "text")
        say((cipher.final(cipher.decryptor("aes-128-cbc", key, iv), sealed)))
        say(type(pkey.sign), type(pkey.verify), type(pkey.encrypt), type(pkey.decrypt))
        local redis = module "store.redis"
        local db = redis.new { addr = "127.0.0.1:1" }
        say(redis.get(db, "k"))
        redis.close(db)
    "#;
    let expected = [
        "3 true b b",
        "1 1 1",
        "2 1 2 1 2",
        "true x nil nil channel closed",
        "key!",
        "true true",
        "text",
        "function function function function",
        "false Connection refused (111) lost",
    ];
    let output: Vec<String> = program(text).iter().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(output, expected);
}

#[test]
fn patches_join_with_two_and_four_arguments() {
    let text = r#"
        local patch = require "silly.patch"
        local function old()
            local count = 0
            return { hit = function() count = count + 1 return count end }
        end
        local function new()
            local count, step = 0, 10
            local function hit() count = count + step return count end
            return { hit = hit, more = function() return step end }
        end
        for _, arguments in ipairs { 2, 4 } do
            local P, running, fresh = patch.new(), old(), new()
            running.hit()
            local absent
            if arguments == 2 then
                absent = P:join(fresh, running)
            else
                absent = P:join(fresh, P:collectupval(fresh), running, P:collectupval(running))
            end
            for name, fn in pairs(fresh) do running[name] = fn end
            say(running.hit(), running.more(), table.concat(absent, " "))
        end
        -- Single functions too.
        local P, running, fresh = patch.new(), old().hit, new().hit
        running()
        local tree = P:collectupval(running)
        say(table.concat(P:join(fresh, P:collectupval(fresh), running, tree)), fresh())
        say(table.concat(P:join(new().hit, running)))
    "#;
    assert_eq!(program(text), ["11 10 hit.step more", "11 10 hit.step more", "step 11", "step"]);
}

#[test]
fn patches_replace_the_methods_of_a_class() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.lua");
    let text = format!(
        r#"
        package.path = "{}/?.lua;" .. package.path
        local function write(version, more)
            local out <close> = assert(io.open("{}", "w"))
            out:write([[
                local made = 0
                local Cart = {{ limit = ]] .. version .. [[, log = function() return "own" end }}
                Cart.__index = Cart
                function Cart:total() return made, "version ]] .. version .. [[" end
                ]] .. more .. [[
                local M = {{}}
                function M.new() made = made + 1 return setmetatable({{}}, Cart) end
                function M.set_log(log) Cart.log = log end
                return M ]])
        end
        write(1, "")
        local patch, shop = require "silly.patch", require "shop"
        local cart = shop.new()
        shop.set_log(function() return "of the program" end)
        say(cart:total())
        write(2, "function Cart:empty() return 'empty' end")
        local _, absent = patch.reload("shop")
        say(#absent, absent[1]:match("%.Cart%.empty$"))
        say(cart:total())
        say(cart:empty(), cart.log(), cart.limit, getmetatable(cart) == getmetatable(shop.new()))
        say(shop.new():total())
        "#,
        folder.path().display(),
        file.display()
    );
    let expected = [
        "1 version 1",
        "1 .Cart.empty",
        "1 version 2",
        "empty of the program 1 true",
        "3 version 2",
    ];
    assert_eq!(program(&text), expected);
}

#[test]
fn sockets_by_number_call_back() {
    let text = r#"
        local net, errno = require "silly.net", require "silly.errno"
        local closed
        local buffer = require "silly.adt.buffer".new()
        local listener = assert(net.tcplisten("127.0.0.1:0", {
            accept = function(fd, listenid, from) say(fd ~= listenid, from:match("^127")) end,
            data = function(fd, ptr, size)
                buffer:append(ptr, size)
                net.tcpsend(fd, { "re:", silly.tostring(ptr, size), ";" })
                if ptr == "bad" then error("logged, and the connection continues") end
            end,
            close = function(fd, why) closed = why say(net.tcpsend(fd, "last")) end,
        }, 16))
        local got, addr = "", net.localaddr(listener)
        local fd = assert(net.tcpconnect(addr, {
            data = function(_, ptr, size) got = got .. ptr:sub(1, size) end,
        }, nil, 5000))
        local function await(text) while got ~= text do time.sleep(1) end end
        say(net.tcpsend(fd, "hello", 4))
        await "re:hell;"
        -- Two receivers of one buffer, while the first does not receive.
        net.readenable(fd, false)
        local ptr, size = net.multipack("multi", 2)
        say(net.tcpmulticast(fd, ptr, size), net.sendsize(fd))
        while buffer:size() < 9 do time.sleep(1) end
        time.sleep(5)
        say(got)
        net.readenable(fd, true)
        await "re:hell;re:multi;"
        net.tcpsend(fd, "bad")
        await "re:hell;re:multi;re:bad;"
        say(net.close(fd))
        say(net.close(fd))
        say(net.tcpsend(fd, "x"))
        while not closed do time.sleep(1) end
        say(closed, net.close(listener))
        say(net.tcpconnect(addr, {}))
        local answered
        local server = assert(net.udpbind("127.0.0.1:0", {
            data = function(fd, ptr, size, from) net.udpsend(fd, ptr:upper(), from) end,
        }))
        addr = net.localaddr(server)
        local client = assert(net.udpconnect(addr, { data = function(_, ptr) answered = ptr end }))
        say(net.udpsend(client, { "pi", "ng" }))
        while not answered do time.sleep(1) end
        say(answered, net.close(client), net.close(server), net.udpsend(client, "x"))
        say(pcall(net.tcpconnect, addr, 1))
    "#;
    let output: Vec<String> = program(text).iter().map(|line| line.trim_end().to_owned()).collect();
    let expected = [
        "true 127",
        "true",
        "true 5",
        "re:hell;",
        "true",
        "false Socket is closed (10003)",
        "false Socket is closed (10003)",
        "true",
        "End of file (10004) true",
        "nil Connection refused (111)",
        "true",
        "PING true true false Socket is closed (10003)",
        "false bad argument #2 to 'tcpconnect' (table expected, got number)",
    ];
    let plain = |line: &str| line.replace(" nil", "").replace("program:", "");
    let output: Vec<String> = output.iter().map(|line| plain(line)).collect();
    let expected: Vec<String> = expected.iter().map(|line| plain(line)).collect();
    assert_eq!(output, expected);
}

#[test]
fn programs_of_2024_have_their_names() {
    let text = r#"
        for _, name in ipairs {
            "crypto.cipher", "crypto.hash", "crypto.hmac", "crypto.pkey", "crypto.utils", "base64",
            "compress.gzip", "jwt", "etcd", "metrics.prometheus", "metrics.counter",
            "metrics.collector.core", "db.redis", "db.mysql", "net.tcp", "task",
        } do
            require("core." .. name)
        end
        local core, http, websocket = require "core", require "core.http", require "core.websocket"
        local main = task.running()
        core.start(function()
            local server = http.listen {
                addr = "127.0.0.1:0",
                handler = function(stream)
                    if stream.path == "/gone" then return stream.conn:close() end
                    local body = stream:readall()
                    stream:respond(200, { ["content-length"] = #body + 4 })
                    stream:close("got " .. body)
                end,
            }
            local url = "http://" .. server.addr .. "/"
            say(http.GET(url).body, http.POST(url, nil, "text").body)
            local stream = http.request("PUT", url, { ["content-length"] = 3 })
            stream:write("put")
            local status, header = stream:readheader()
            say(status, header["content-length"], (stream:readall()))
            say(http.request("GET", url .. "gone"):readheader())
            local sockets = websocket.listen {
                addr = "127.0.0.1:0",
                handler = function(socket)
                    socket:write(socket:read() .. "!", "text")
                    socket:close()
                end,
            }
            local socket = websocket.connect("http://" .. sockets.addr .. "/")
            socket:write("hello", "text")
            local data, kind = socket:read()
            say(data, kind)
            say(pcall(websocket.listen, { addr = "127.0.0.1:0" }))
            task.wakeup(main)
        end)
        task.wait()
    "#;
    let expected = [
        "got  got text",
        "200 7 got put",
        "nil End of file (10004)",
        "hello! text",
        "false bad argument #1 to 'listen' (a table with a handler expected)",
    ];
    assert_eq!(program(text), expected);
}
