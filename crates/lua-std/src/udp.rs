//! `net.udp`: datagrams.
//!
//! Promises that a datagram is delivered whole, that a waiting task gets it in the turn it arrived
//! in, that the queue of a script is limited (the kernel drops further datagrams), and that sending
//! never waits. An address is text, `ip:port`.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use mlua::{Either, FromLua, Lua, Result, Table, UserData, UserDataMethods, Value};
use net::Datagram;
use tokio::sync::Notify;

use crate::limits::{DATAGRAM_BYTES, DATAGRAM_TAKES, DATAGRAMS};
use lua_vm::TaskId;
use lua_vm::Vm;
use lua_vm::address;
use lua_vm::arguments::add_methods;
use lua_vm::async_function;
use lua_vm::errno;

/// A socket and its queues.
struct Socket {
    datagram: Datagram,
    /// The only peer it sends to and receives from.
    peer: Option<SocketAddr>,
    waiting: RefCell<VecDeque<(Bytes, SocketAddr)>>,
    /// Notified when a datagram arrives or is taken, or the socket is closed.
    changed: Notify,
    /// The coroutine that waits for a datagram.
    reader: Cell<Option<TaskId>>,
    /// Datagrams that wait for space in the kernel's send buffer.
    queue: RefCell<VecDeque<(Vec<u8>, SocketAddr)>>,
    /// A task is sending the queue.
    sending: Cell<bool>,
    /// Bytes in the queue and in that task.
    unsent: Cell<usize>,
    closed: Cell<bool>,
}

/// A script's handle of a socket.
struct SocketHandle(Rc<Socket>);

impl Drop for SocketHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.set("bind", lua.create_function(|lua, at: String| bind(lua, &at))?)?;
    table.set(
        "connect",
        lua.create_function(|lua, (to, options): (String, Option<Either<Table, String>>)| {
            let Some(peer) = address::socket(&to) else { return refuse(lua, libc::EINVAL) };
            let own = match options {
                Some(Either::Left(options)) => options.get::<Option<String>>("bindaddr")?,
                Some(Either::Right(own)) => Some(own),
                None => None,
            };
            let own = own.map_or(Some(any(peer)), |own| address::socket(&own));
            let Some(own) = own else { return refuse(lua, libc::EINVAL) };
            begin(lua, own, Some(peer))
        })?,
    )?;
    let receive = async_function::create(lua, |lua, (socket, ms): (Value, Option<u64>)| {
        let socket = to_socket(lua, socket, "recvfrom")?;
        let vm = Vm::of(lua)?;
        // A reader that was closed or woken otherwise no longer waits.
        let waits = |task: TaskId| vm.is_waiting(task);
        if socket.reader.get().is_some_and(waits) {
            return Err(mlua::Error::runtime("another task reads from this socket"));
        }
        let own = vm.current_task();
        socket.reader.set(own);
        socket.changed.notify_waiters();
        let weak = vm.weak();
        Ok(async move {
            let is_wanted = || {
                let found = |vm: std::rc::Rc<Vm>, task| vm.is_waiting(task);
                own.zip(weak.upgrade()).is_some_and(|(task, vm)| found(vm, task))
            };
            let next = socket.next(own, is_wanted);
            let got = match ms {
                Some(ms) => net::timer::within(Duration::from_millis(ms), next).await,
                None => Some(next.await),
            };
            if socket.reader.get() == own {
                socket.reader.set(None);
            }
            Ok(Received(got.unwrap_or_else(|| Err(errno::of_number(libc::ETIMEDOUT)))))
        })
    })?;
    let methods = ["sendto", "close", "isalive", "unreadbytes", "unsentbytes"];
    add_methods(lua, &table, &methods)?;
    lua.set_named_registry_value("tidegate.udp.recvfrom", &receive)?;
    table.set("recvfrom", receive)?;
    Ok(table)
}

fn bind(lua: &Lua, at: &str) -> Result<(Value, Option<String>)> {
    match address::socket(at) {
        Some(own) => begin(lua, own, None),
        None => refuse(lua, libc::EINVAL),
    }
}

fn refuse(_: &Lua, number: i32) -> Result<(Value, Option<String>)> {
    Ok((Value::Nil, Some(errno::of_number(number))))
}

/// The wildcard of a peer's family.
fn any(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

fn begin(lua: &Lua, own: SocketAddr, peer: Option<SocketAddr>) -> Result<(Value, Option<String>)> {
    let datagram = match Datagram::bind(own) {
        Ok(datagram) => datagram,
        Err(error) => return Ok((Value::Nil, Some(errno::of_error(&error)))),
    };
    let socket = Rc::new(Socket {
        datagram,
        peer,
        waiting: RefCell::default(),
        changed: Notify::new(),
        reader: Cell::new(None),
        queue: RefCell::default(),
        sending: Cell::new(false),
        unsent: Cell::new(0),
        closed: Cell::new(false),
    });
    let object = lua.create_userdata(SocketHandle(socket))?;
    Ok((Value::UserData(object), None))
}

fn to_socket(_: &Lua, value: Value, name: &str) -> Result<Rc<Socket>> {
    let socket = match &value {
        Value::UserData(object) => {
            object.borrow::<SocketHandle>().ok().map(|handle| handle.0.clone())
        }
        _ => None,
    };
    socket.ok_or_else(|| {
        let text = format!("bad argument #1 to '{name}' (a datagram socket expected)");
        mlua::Error::runtime(text)
    })
}

impl Socket {
    /// Receives the next datagram.
    async fn next(
        &self,
        own: Option<TaskId>,
        is_wanted: impl Fn() -> bool,
    ) -> std::result::Result<(Bytes, SocketAddr), String> {
        loop {
            // A datagram without a reader stays for the next one.
            if self.reader.get() != own || !is_wanted() {
                return Err(errno::CLOSED.to_owned());
            }
            if let Some(next) = self.waiting.borrow_mut().pop_front() {
                return Ok(next);
            }
            if self.closed.get() {
                return Err(errno::CLOSED.to_owned());
            }
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                got = self.datagram.receive_from() => match got {
                    Ok(got) => self.enqueue(got),
                    Err(error) => return Err(errno::of_error(&error)),
                },
            }
        }
    }

    fn enqueue(&self, (data, from): (Bytes, SocketAddr)) {
        if self.peer.is_none_or(|peer| peer == from) {
            self.waiting.borrow_mut().push_back((data, from));
        }
    }

    /// Receives what the kernel has, up to the limit.
    fn fill(&self) {
        while self.waiting.borrow().len() < DATAGRAMS {
            match self.datagram.try_receive_from() {
                Ok(got) => self.enqueue(got),
                Err(_) => return,
            }
        }
    }

    /// Sends now, or queues behind the waiting datagrams, up to a limit.
    fn send(self: &Rc<Socket>, data: &[u8], to: SocketAddr) -> io::Result<()> {
        if !self.sending.get() {
            match self.datagram.try_send_to(data, to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return sent,
            }
        }
        if self.unsent.get() >= DATAGRAM_BYTES {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.unsent.set(self.unsent.get() + queued_size(data));
        self.queue.borrow_mut().push_back((data.to_vec(), to));
        if !self.sending.replace(true) {
            let socket = self.clone();
            net::task::spawn_local(async move { socket.send_queue().await });
        }
        Ok(())
    }

    async fn send_queue(&self) {
        loop {
            let Some((data, to)) = self.queue.borrow_mut().pop_front() else { break };
            // UDP may lose datagrams; this one is lost here.
            let _ = self.datagram.send_to(&data, to).await;
            self.unsent.set(self.unsent.get() - queued_size(&data));
        }
        self.sending.set(false);
    }

    fn close(&self) -> bool {
        let first = !self.closed.replace(true);
        self.waiting.borrow_mut().clear();
        self.changed.notify_one();
        first
    }
}

/// The size of a queued datagram; an empty one takes memory too.
fn queued_size(data: &[u8]) -> usize {
    data.len() + DATAGRAM_TAKES
}

/// A datagram to send: a string, or a list of strings that are joined.
struct Payload(Vec<u8>);

impl FromLua for Payload {
    fn from_lua(value: Value, lua: &Lua) -> Result<Payload> {
        let Value::Table(pieces) = value else {
            return mlua::LuaString::from_lua(value, lua)
                .map(|text| Payload(text.as_bytes().to_vec()));
        };
        let mut data = Vec::new();
        for piece in pieces.sequence_values::<mlua::LuaString>() {
            data.extend_from_slice(&piece?.as_bytes());
        }
        Ok(Payload(data))
    }
}

/// `data, address` or `nil, err`.
struct Received(std::result::Result<(Bytes, SocketAddr), String>);

impl mlua::IntoLuaMulti for Received {
    fn into_lua_multi(self, lua: &Lua) -> Result<mlua::MultiValue> {
        match self.0 {
            Ok((data, from)) => {
                let from = SocketAddr::new(from.ip().to_canonical(), from.port()).to_string();
                (lua.create_string(&data)?, from).into_lua_multi(lua)
            }
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    }
}

impl UserData for SocketHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method(
            "sendto",
            |_, SocketHandle(socket), (data, to): (Payload, Option<String>)| {
                if socket.closed.get() {
                    return Ok((false, Some(errno::CLOSED.to_owned())));
                }
                let to = match to {
                    Some(to) => address::socket(&to).ok_or(libc::EINVAL),
                    None => socket.peer.ok_or(libc::EDESTADDRREQ),
                };
                Ok(match to {
                    Err(number) => (false, Some(errno::of_number(number))),
                    Ok(to) => match socket.send(&data.0, to) {
                        Ok(()) => (true, None),
                        Err(error) => (false, Some(errno::of_error(&error))),
                    },
                })
            },
        );
        methods.add_method("close", |_, SocketHandle(socket), ()| {
            let first = socket.close();
            Ok((first, (!first).then(|| errno::CLOSED.to_owned())))
        });
        methods.add_method("isalive", |_, SocketHandle(socket), ()| Ok(!socket.closed.get()));
        methods.add_method("unreadbytes", |_, SocketHandle(socket), ()| {
            socket.fill();
            Ok(socket.waiting.borrow().iter().map(|(data, _)| data.len()).sum::<usize>())
        });
        methods.add_method("unsentbytes", |_, SocketHandle(socket), ()| Ok(socket.unsent.get()));
        methods.add_meta_method("__index", |lua, SocketHandle(socket), name: mlua::LuaString| {
            match &*name.as_bytes() {
                b"recvfrom" => lua.named_registry_value::<Value>("tidegate.udp.recvfrom"),
                b"addr" => {
                    let local = socket.datagram.local().to_string();
                    Value::from_lua(Value::String(lua.create_string(local)?), lua)
                }
                _ => Ok(Value::Nil),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::output;

    #[test]
    fn a_datagram_of_a_closed_reader_goes_to_the_next() {
        let program = r#"
            local udp, task = require "silly.net.udp", require "silly.task"
            local time = require "silly.time"
            local socket = assert(udp.bind("127.0.0.1:0"))
            local reader = task.fork(function() socket:recvfrom() end)
            time.sleep(1)
            cancel(reader)
            socket:sendto("one", socket.addr)
            time.sleep(1)
            say((socket:recvfrom(5000)))
            reader = task.fork(function() socket:recvfrom() end)
            time.sleep(1)
            cancel(reader)
            task.fork(function() time.sleep(1) socket:sendto("two", socket.addr) end)
            say((socket:recvfrom(5000)))
            require "silly".exit()
        "#;
        assert_eq!(output(program), ["one", "two"]);
    }

    #[test]
    fn datagrams_sent_right_after_bind_or_connect_keep_their_order() {
        let program = r#"
            local udp = require "silly.net.udp"
            local server = assert(udp.bind("127.0.0.1:0"))
            local client = assert(udp.connect(server.addr))
            for i = 1, 9 do assert(client:sendto(tostring(i))) end
            local got = {}
            for i = 1, 9 do got[i] = server:recvfrom(5000) end
            say(table.concat(got))
            local other = assert(udp.bind("127.0.0.1:0"))
            for i = 1, 9 do assert(other:sendto(tostring(i), server.addr)) end
            for i = 1, 9 do got[i] = server:recvfrom(5000) end
            say(table.concat(got), other:unsentbytes())
            assert(other:sendto({ "a", "b", 1 }, server.addr))
            say((server:recvfrom(5000)))
            say(pcall(other.sendto, other, { {} }, server.addr))
            require "silly".exit()
        "#;
        let output = output(program);
        assert_eq!(output[..3], ["123456789", "123456789 0", "ab1"]);
        assert!(output[3].starts_with("false "), "{output:?}");
    }

    #[test]
    fn datagrams_there_and_back() {
        let program = r#"
            local udp, task, silly = require "silly.net.udp", require "silly.task", require "silly"
            local server = assert(udp.bind("127.0.0.1:0"))
            task.fork(function()
                while true do
                    local data, from = server:recvfrom()
                    if not data then say(from) silly.exit() end
                    say(udp.sendto(server, data:upper(), from))
                end
            end)
            local client = assert(udp.connect(server.addr))
            say(client:sendto("hello"))
            local data, from = client:recvfrom(60000)
            say(data, from == server.addr)
            say(client:recvfrom(5))
            say(server:sendto("x"))
            say(pcall(udp.recvfrom, 1))
            say(client:close(), client:isalive(), client:sendto("x"))
            say(udp.bind("nonsense"))
            for _, own in ipairs { "127.0.0.1:0", { bindaddr = "127.0.0.1:0" } } do
                say(udp.connect(server.addr, own).addr:match("^127.0.0.1:"))
            end
            say(udp.connect(server.addr, "nonsense"))
            server:close()
        "#;
        let expected = [
            "true",
            "true",
            "HELLO true",
            "nil Connection timed out (110)",
            "false Destination address required (89)",
            "false bad argument #1 to 'recvfrom' (a datagram socket expected)",
            "true false false Socket is closed (10003)",
            "nil Invalid argument (22)",
            "127.0.0.1:",
            "127.0.0.1:",
            "nil Invalid argument (22)",
            "Socket is closed (10003)",
        ];
        let output: Vec<String> =
            output(program).iter().map(|line| line.trim_end_matches(" nil").to_owned()).collect();
        assert_eq!(output, expected);
    }
}
