//! `store.mysql`: the packets of MySQL and the values of rows; the client is `lua/mysql.lua`.
//!
//! Promises that a response is read once however its bytes are split, that packets and results are
//! limited, and that after a fault nothing more is read from a connection.

use mlua::{
    Error, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, UserData, UserDataMethods,
    Value, Variadic,
};
use wire::mysql::{
    self, AUTOCOMMIT, Column, ErrPacket, Fault, Greeting, IN_TRANSACTION, Login, LoginReply,
    MORE_RESULTS, OkPacket, Packets, Parameter, Prepared, Row, capabilities,
};

use crate::sql_pool;
use lua_vm::arguments::function;
use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    let session = |_: &Lua, (max_packet, max_result): (usize, usize)| {
        Ok(Session {
            packets: Packets::new(max_packet),
            max_result,
            expected: Expected::Greeting,
            greeting: None,
            no_eof: false,
            status: AUTOCOMMIT,
            results: Vec::new(),
            current: ResultSet::default(),
        })
    };
    raw.set("session", function(lua, "session", session)?)?;
    raw.set("sql_pool", sql_pool::open(lua)?)?;
    script::open(lua, "mysql", include_str!("../../../lua/mysql.lua"), raw)
}

/// The packet that the server sends next.
#[derive(Clone, Copy)]
enum Expected {
    Greeting,
    Login,
    /// The response to a command that gives no rows.
    Ok,
    Prepared,
    /// The columns and parameters of a statement, which each result repeats.
    PreparedColumns {
        statement: Prepared,
        packets: u32,
    },
    /// The response to an executed statement.
    Result,
    Columns {
        left: u64,
    },
    ColumnsEnd,
    Rows,
}

/// The result set that is being read, and the bytes of the whole response.
#[derive(Default)]
struct ResultSet {
    rows: Option<Table>,
    count: usize,
    columns: Vec<(LuaString, u8, bool)>,
    bytes: usize,
}

/// One connection's packets and the state of its response.
struct Session {
    packets: Packets,
    /// The most bytes of a response.
    max_result: usize,
    expected: Expected,
    greeting: Option<Greeting>,
    /// True if results end with an OK packet.
    no_eof: bool,
    /// The server's status after the last command.
    status: u16,
    /// The complete results of the response.
    results: Vec<Table>,
    current: ResultSet,
}

/// The meaning of a packet for the client.
enum Event {
    /// The values that `next` returns after `true`.
    Done(MultiValue),
    /// The server's error, after which the connection is usable.
    Failed(Table),
    /// Another packet belongs to this response.
    Continue,
}

/// Why a packet has no event: bytes that cannot be used, or an error of Lua such as no memory.
enum PacketError {
    Fault(Fault),
    TooLarge,
    Lua(Error),
}

impl From<Fault> for PacketError {
    fn from(fault: Fault) -> Self {
        PacketError::Fault(fault)
    }
}

impl From<Error> for PacketError {
    fn from(error: Error) -> Self {
        PacketError::Lua(error)
    }
}

type Step<T> = std::result::Result<T, PacketError>;

impl Session {
    /// `true, …`; `false, error`; `"fault", reason`; nil if the response is incomplete.
    fn next(&mut self, lua: &Lua) -> Result<MultiValue> {
        loop {
            // Leaves the packets so that their bytes and the rest can be borrowed at once.
            let mut packets = std::mem::replace(&mut self.packets, Packets::new(0));
            let event = match packets.next_packet() {
                Ok(Some(packet)) => self.packet(lua, packet),
                Ok(None) => {
                    self.packets = packets;
                    return Value::Nil.into_lua_multi(lua);
                }
                Err(fault) => Err(fault.into()),
            };
            self.packets = packets;
            match event {
                Ok(Event::Continue) => {}
                Ok(Event::Done(mut values)) => {
                    values.push_front(Value::Boolean(true));
                    return Ok(values);
                }
                Ok(Event::Failed(error)) => return (false, error).into_lua_multi(lua),
                Err(PacketError::Fault(fault)) => {
                    return ("fault", fault.text()).into_lua_multi(lua);
                }
                Err(PacketError::TooLarge) => {
                    let reason = "mysql: a result is larger than max_result_size";
                    return ("fault", reason).into_lua_multi(lua);
                }
                Err(PacketError::Lua(error)) => return Err(error),
            }
        }
    }

    fn packet(&mut self, lua: &Lua, packet: &[u8]) -> Step<Event> {
        match self.expected {
            Expected::Greeting => match Greeting::parse(packet)? {
                Ok(greeting) => {
                    let table = lua.create_table()?;
                    table.set("version", lua.create_string(&greeting.version)?)?;
                    table.set("thread", greeting.thread)?;
                    table.set("tls", greeting.capabilities & capabilities::TLS != 0)?;
                    table.set("plugin", lua.create_string(&greeting.plugin)?)?;
                    table.set("scramble", lua.create_string(&greeting.scramble)?)?;
                    self.expected = Expected::Login;
                    self.greeting = Some(greeting);
                    done(lua, table)
                }
                Err(error) => failed(lua, &error),
            },
            Expected::Login => match LoginReply::parse(packet)? {
                LoginReply::Accepted => done(lua, "accepted"),
                LoginReply::Rejected(error) => failed(lua, &error),
                LoginReply::Switch { plugin, scramble } => {
                    let texts = (lua.create_string(plugin)?, lua.create_string(scramble)?);
                    done(lua, ("switch", texts.0, texts.1))
                }
                LoginReply::More(data) => done(lua, ("more", lua.create_string(data)?)),
            },
            _ if packet.first() == Some(&0xFF) => {
                self.forget();
                failed(lua, &ErrPacket::parse(packet)?)
            }
            Expected::Ok => {
                let ok = ok(packet)?;
                self.status = ok.status;
                let table = ok_table(lua, &ok)?;
                done(lua, table)
            }
            Expected::Prepared => self.prepared(lua, Prepared::parse(packet)?),
            Expected::PreparedColumns { statement, packets } => {
                if packets > 1 {
                    let packets = packets - 1;
                    self.expected = Expected::PreparedColumns { statement, packets };
                    return Ok(Event::Continue);
                }
                done(lua, (statement.id, statement.parameters))
            }
            Expected::Result | Expected::Columns { .. } | Expected::ColumnsEnd | Expected::Rows => {
                self.result(lua, packet)
            }
        }
    }

    fn prepared(&mut self, lua: &Lua, statement: Prepared) -> Step<Event> {
        let ends = |count: u16| u32::from(count) + u32::from(count > 0 && !self.no_eof);
        let packets = ends(statement.columns) + ends(statement.parameters);
        if packets == 0 {
            return done(lua, (statement.id, statement.parameters));
        }
        self.expected = Expected::PreparedColumns { statement, packets };
        Ok(Event::Continue)
    }

    fn result(&mut self, lua: &Lua, packet: &[u8]) -> Step<Event> {
        self.current.bytes += packet.len();
        if self.current.bytes > self.max_result {
            return Err(PacketError::TooLarge);
        }
        match self.expected {
            Expected::Columns { left } => {
                let column = Column::parse(packet)?;
                let name = lua.create_string(column.name)?;
                self.current.columns.push((name, column.kind, column.is_unsigned));
                self.expected = match (left, self.no_eof) {
                    (2.., _) => Expected::Columns { left: left - 1 },
                    (_, true) => Expected::Rows,
                    (_, false) => Expected::ColumnsEnd,
                };
                Ok(Event::Continue)
            }
            Expected::ColumnsEnd if mysql::is_end(packet) => {
                self.expected = Expected::Rows;
                Ok(Event::Continue)
            }
            Expected::Rows if mysql::is_end(packet) => {
                let status = OkPacket::end_status(packet, self.no_eof)?;
                let rows = self.current.rows.take();
                self.complete(lua, rows.ok_or(Fault::Malformed)?, status)
            }
            Expected::Rows => {
                self.row(lua, packet)?;
                Ok(Event::Continue)
            }
            _ if packet.first() == Some(&0) => {
                let ok = ok(packet)?;
                let table = ok_table(lua, &ok)?;
                self.complete(lua, table, ok.status)
            }
            Expected::Result => {
                let left = mysql::column_count(packet)?;
                let bytes = self.current.bytes;
                let rows = Some(lua.create_table()?);
                self.current = ResultSet { rows, bytes, ..ResultSet::default() };
                self.expected = Expected::Columns { left };
                Ok(Event::Continue)
            }
            _ => Err(Fault::Malformed.into()),
        }
    }

    fn row(&mut self, lua: &Lua, packet: &[u8]) -> Step<()> {
        let current = &mut self.current;
        let mut row = Row::new(packet, current.columns.len())?;
        let table = lua.create_table_with_capacity(0, current.columns.len())?;
        for (name, kind, is_unsigned) in &current.columns {
            let column = Column { name: b"", kind: *kind, is_unsigned: *is_unsigned };
            let value = match row.value(&column)? {
                mysql::Value::Null => continue,
                mysql::Value::Integer(number) => Value::Integer(number),
                mysql::Value::Unsigned(number) => match i64::try_from(number) {
                    Ok(number) => Value::Integer(number),
                    // As text it loses nothing.
                    Err(_) => Value::String(lua.create_string(number.to_string())?),
                },
                mysql::Value::Float(number) => Value::Number(number),
                mysql::Value::Bytes(bytes) => Value::String(lua.create_string(bytes)?),
                mysql::Value::Text(text) => Value::String(lua.create_string(text.as_bytes())?),
            };
            table.raw_set(name, value)?;
        }
        current.count += 1;
        current.rows.as_ref().ok_or(Fault::Malformed)?.raw_set(current.count, table)?;
        Ok(())
    }

    /// Ends a result; the response is over unless another one follows.
    fn complete(&mut self, lua: &Lua, result: Table, status: u16) -> Step<Event> {
        self.results.push(result);
        self.status = status;
        if status & MORE_RESULTS != 0 {
            self.expected = Expected::Result;
            return Ok(Event::Continue);
        }
        let mut results = std::mem::take(&mut self.results).into_iter();
        self.forget();
        let first = results.next();
        let more: Vec<Table> = results.collect();
        done(lua, (first, Value::Nil, (!more.is_empty()).then_some(more)))
    }

    /// Drops the received part of a response.
    fn forget(&mut self) {
        self.results.clear();
        self.current = ResultSet::default();
    }
}

fn done(lua: &Lua, values: impl IntoLuaMulti) -> Step<Event> {
    Ok(Event::Done(values.into_lua_multi(lua)?))
}

fn failed(lua: &Lua, error: &ErrPacket<'_>) -> Step<Event> {
    let table = lua.create_table()?;
    table.set("type", "ERR")?;
    table.set("errno", error.number)?;
    if let Some(state) = error.state {
        table.set("sqlstate", lua.create_string(state)?)?;
    }
    table.set("message", lua.create_string(error.message)?)?;
    Ok(Event::Failed(table))
}

fn ok(packet: &[u8]) -> Step<OkPacket<'_>> {
    if packet.first() != Some(&0) {
        return Err(Fault::Malformed.into());
    }
    Ok(OkPacket::parse(packet)?)
}

fn ok_table(lua: &Lua, ok: &OkPacket<'_>) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 6)?;
    table.set("type", "OK")?;
    table.set("affected_rows", ok.affected_rows as i64)?;
    table.set("last_insert_id", ok.last_insert_id as i64)?;
    table.set("server_status", ok.status)?;
    table.set("warning_count", ok.warnings)?;
    if !ok.message.is_empty() {
        table.set("message", lua.create_string(ok.message)?)?;
    }
    Ok(table)
}

fn framed(lua: &Lua, packet: &[u8], sequence: u8) -> Result<LuaString> {
    let mut out = Vec::with_capacity(packet.len() + 4);
    mysql::frame(packet, sequence, &mut out);
    lua.create_string(out)
}

impl UserData for Session {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("feed", |_, session, bytes: LuaString| {
            session.packets.feed(&bytes.as_bytes());
            Ok(())
        });
        methods.add_method_mut("next", |lua, session, ()| session.next(lua));
        // Of the last complete response that was no error.
        methods.add_method("in_transaction", |_, session, ()| {
            Ok(session.status & IN_TRANSACTION != 0)
        });
        methods.add_method("autocommits", |_, session, ()| Ok(session.status & AUTOCOMMIT != 0));
        methods.add_method_mut("login", |lua, session, (options, begin): (Table, bool)| {
            session.login(lua, &options, begin)
        });
        // `proof(bytes)`: a packet of the login.
        methods.add_method("proof", |lua, session, proof: LuaString| {
            framed(lua, &proof.as_bytes(), session.packets.next_sequence())
        });
        // `command(byte[, text])`: one whose response is an OK packet.
        methods.add_method_mut("command", |lua, session, command: (u8, Option<LuaString>)| {
            session.expected = Expected::Ok;
            let mut packet = vec![command.0];
            packet.extend_from_slice(
                &command.1.map(|text| text.as_bytes().to_vec()).unwrap_or_default(),
            );
            framed(lua, &packet, 0)
        });
        methods.add_method_mut("prepare", |lua, session, sql: LuaString| {
            const PREPARE: u8 = 0x16;
            session.expected = Expected::Prepared;
            framed(lua, &[&[PREPARE], &*sql.as_bytes()].concat(), 0)
        });
        // `release(statement)`: a packet without a response.
        methods.add_method("release", |lua, _, statement: u32| {
            const CLOSE: u8 = 0x19;
            let id = statement.to_le_bytes();
            framed(lua, &[&[CLOSE][..], &id].concat(), 0)
        });
        methods.add_method_mut("execute", |lua, session, call: (u32, Variadic<Value>)| {
            let (statement, values) = call;
            let texts: Vec<_> =
                values.iter().map(|v| v.as_string().map(LuaString::as_bytes)).collect();
            let mut parameters = Vec::with_capacity(values.len());
            for (value, text) in values.iter().zip(&texts) {
                parameters.push(match (value, text) {
                    (Value::Nil, _) => Parameter::Null,
                    (Value::Boolean(value), _) => Parameter::Boolean(*value),
                    (Value::Integer(value), _) => Parameter::Integer(*value),
                    (Value::Number(value), _) => Parameter::Float(*value),
                    (_, Some(text)) => Parameter::Bytes(text),
                    (other, None) => {
                        let kind = other.type_name();
                        return Err(Error::runtime(format!("invalid parameter type: {kind}")));
                    }
                });
            }
            session.expected = Expected::Result;
            framed(lua, &mysql::execute(statement, &parameters), 0)
        });
    }
}

impl Session {
    /// `login{ user =, database =, charset =, max_packet =, tls =, plugin =, proof = }, begin`: the
    /// reply to the greeting, or the packet before TLS if `begin`.
    fn login(&mut self, lua: &Lua, options: &Table, begin: bool) -> Result<LuaString> {
        let Some(greeting) = &self.greeting else {
            return Err(Error::runtime("mysql: there was no greeting"));
        };
        let text = |name: &str| options.get::<LuaString>(name);
        let (user, database, plugin, proof) =
            (text("user")?, text("database")?, text("plugin")?, text("proof")?);
        let (user, database, plugin, proof) =
            (user.as_bytes(), database.as_bytes(), plugin.as_bytes(), proof.as_bytes());
        let login = Login {
            tls: options.get("tls")?,
            charset: options.get("charset")?,
            max_packet: options.get("max_packet")?,
            user: &user,
            database: &database,
            plugin: &plugin,
            proof: &proof,
        };
        self.no_eof = login.capabilities(greeting) & capabilities::NO_EOF != 0;
        if begin {
            return framed(lua, &login.tls_request(greeting), 1);
        }
        // After TLS the reply is the second packet of this side.
        framed(lua, &login.reply(greeting), if login.tls { 2 } else { 1 })
    }
}

#[cfg(test)]
mod tests;
