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
