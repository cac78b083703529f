//! `store.postgres`: the messages of PostgreSQL and the values of rows; the client is
//! `lua/postgres.lua`.
//!
//! Promises that a response is read once however its bytes are split, that messages, results and
//! waiting notifications are limited, and that after a fault nothing more is read from a
//! connection.

mod arguments;
mod rows;
mod scram;

use std::collections::VecDeque;
use std::rc::Rc;

use mlua::{
    AnyUserData, Error, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, UserData,
    UserDataMethods, Value, Variadic,
};
use wire::postgres::{
    self, Authentication, Fault, Messages, ServerError, ServerMessage, TransactionState,
};

use crate::limits::POSTGRES_NOTIFICATIONS;
use crate::sql_pool;
use lua_vm::arguments::function;
use lua_vm::{async_function, script};
use rows::ResultRows;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    let session = |_: &Lua, (max_packet, max_result): (usize, usize)| {
        Ok(Session {
            messages: Messages::new(max_packet),
            max_result,
            expected: Expected::Login,
            state: TransactionState::Idle,
            error: None,
            statement: StatementParts::default(),
            result: ResultRows::default(),
            key: None,
            notifications: VecDeque::new(),
        })
    };
    raw.set("session", function(lua, "session", session)?)?;
    raw.set(
        "cancel",
        lua.create_function(|lua, (process, key): (u32, u32)| {
            lua.create_string(postgres::cancel_request(process, key))
        })?,
    )?;
    raw.set("tls_request", lua.create_string(postgres::tls_request())?)?;
    raw.set("terminate", lua.create_string(postgres::terminate())?)?;
    raw.set("scram_first", lua.create_function(|lua, ()| lua.create_string(scram::first()?))?)?;
    raw.set("scram_final", async_function::create(lua, scram::last)?)?;
    raw.set("array", lua.create_function(arguments::array)?)?;
    raw.set("sql_pool", sql_pool::open(lua)?)?;
    script::open(lua, "postgres", include_str!("../../../lua/postgres.lua"), raw)
}

/// The response that is being read.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    Login,
    /// The response to a statement without parameters.
    Text,
    Prepared,
    Result,
    /// Nothing: notifications may arrive.
    Nothing,
}

/// A prepared statement.
struct Statement {
    name: Vec<u8>,
    parameters: Vec<u32>,
    columns: Rc<[(LuaString, u32)]>,
}

impl UserData for Statement {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("count", |_, statement, ()| Ok(statement.parameters.len()));
        // `kind(n)`: what a table may become as parameter n.
        methods.add_method("kind", |_, statement, at: usize| {
            let kind = at.checked_sub(1).and_then(|at| statement.parameters.get(at)).copied();
            Ok(match kind {
                Some(postgres::oids::JSON | postgres::oids::JSONB) => Some("json"),
                Some(postgres::oids::BYTEA_ARRAY) => Some("bytea[]"),
                Some(kind) if postgres::is_array(kind) => Some("array"),
                _ => None,
            })
        });
    }
}

/// What has arrived of a prepared statement.
#[derive(Default)]
struct StatementParts {
    name: Vec<u8>,
    parameters: Vec<u32>,
    columns: Vec<(LuaString, u32)>,
}

/// One connection's messages and the state of its response.
struct Session {
    messages: Messages,
    /// The most bytes of a response.
    max_result: usize,
    expected: Expected,
    state: TransactionState,
    /// The server's error, until it is ready again.
    error: Option<Table>,
    statement: StatementParts,
    result: ResultRows,
    /// What cancels a statement of this connection.
    key: Option<(u32, u32)>,
    notifications: VecDeque<Table>,
}

/// What a message means to the client.
enum Event {
    /// The values that `next` returns after `true`.
    Done(MultiValue),
    /// The server's error, after which the connection is usable.
    Failed(Table),
    /// The server's error, with which it ends the connection.
    Fatal(Table),
    /// Another message belongs to this response.
    Continue,
}

/// Why a message has no event: bytes that cannot be used, or an error of Lua such as no memory.
enum MessageError {
    Fault(Fault),
    Reason(&'static str),
    Lua(Error),
}

impl From<Fault> for MessageError {
    fn from(fault: Fault) -> Self {
        MessageError::Fault(fault)
    }
}

impl From<Error> for MessageError {
    fn from(error: Error) -> Self {
        MessageError::Lua(error)
    }
}

type Step<T> = std::result::Result<T, MessageError>;

const UNEXPECTED: MessageError =
    MessageError::Reason("postgres: a message that does not belong to the response");

impl Session {
    /// `true, …`; `false, error`; `"fatal", error`; `"fault", reason`; nil if the response is
    /// incomplete.
    fn next(&mut self, lua: &Lua) -> Result<MultiValue> {
        loop {
            // Leaves the messages so that their bytes and the rest can be borrowed at once.
            let mut messages = std::mem::replace(&mut self.messages, Messages::new(0));
            let event = match messages.next_message() {
                Ok(Some((kind, content))) => match ServerMessage::parse(kind, content) {
                    Ok(message) => self.message(lua, message, content.len()),
                    Err(fault) => Err(fault.into()),
                },
                Ok(None) => {
                    self.messages = messages;
                    return Value::Nil.into_lua_multi(lua);
                }
                Err(fault) => Err(fault.into()),
            };
            self.messages = messages;
            return match event {
                Ok(Event::Continue) => continue,
                Ok(Event::Done(mut values)) => {
                    values.push_front(Value::Boolean(true));
                    Ok(values)
                }
                Ok(Event::Failed(error)) => (false, error).into_lua_multi(lua),
                Ok(Event::Fatal(error)) => ("fatal", error).into_lua_multi(lua),
                Err(MessageError::Fault(fault)) => ("fault", fault.text()).into_lua_multi(lua),
                Err(MessageError::Reason(reason)) => ("fault", reason).into_lua_multi(lua),
                Err(MessageError::Lua(error)) => Err(error),
            };
        }
    }

    fn message(&mut self, lua: &Lua, message: ServerMessage<'_>, bytes: usize) -> Step<Event> {
        match message {
            ServerMessage::Ignored => Ok(Event::Continue),
            ServerMessage::Notification { process, channel, payload } => {
                self.notified(lua, process, channel, payload)
            }
            ServerMessage::Error(error) => {
                let table = error_table(lua, &error)?;
                // After an error of the login, and one that is fatal, nothing else follows.
                if self.expected == Expected::Login {
                    return Ok(Event::Failed(table));
                }
                if matches!(error.severity, b"FATAL" | b"PANIC") {
                    return Ok(Event::Fatal(table));
                }
                self.error = Some(table);
                Ok(Event::Continue)
            }
            ServerMessage::Authentication(wanted) if self.expected == Expected::Login => {
                authentication(lua, wanted)
            }
            ServerMessage::CancelKey { process, key } if self.expected == Expected::Login => {
                self.key = Some((process, key));
                Ok(Event::Continue)
            }
            ServerMessage::Ready(state) if self.expected != Expected::Nothing => {
                self.state = state;
                self.ready(lua)
            }
            ServerMessage::Copy { .. } => {
                Err(MessageError::Reason("postgres: copy is not supported"))
            }
            message => self.statement_message(lua, message, bytes),
        }
    }

    /// A message of a statement's response.
    fn statement_message(
        &mut self,
        lua: &Lua,
        message: ServerMessage<'_>,
        bytes: usize,
    ) -> Step<Event> {
        match (self.expected, message) {
            (Expected::Prepared, ServerMessage::Parameters(types)) => {
                self.statement.parameters = types;
            }
            (Expected::Prepared, ServerMessage::Columns(columns)) => {
                let column = |column: &postgres::Column<'_>| {
                    Ok((lua.create_string(column.name)?, column.kind))
                };
                self.statement.columns = columns.iter().map(column).collect::<Result<_>>()?;
            }
            (Expected::Prepared, ServerMessage::NoColumns) => {}
            (Expected::Text, ServerMessage::Columns(_) | ServerMessage::Row(_)) => {}
            (Expected::Result, ServerMessage::Row(row)) => {
                if !self.result.add(lua, row, bytes, self.max_result)? {
                    return Err(MessageError::Reason(
                        "postgres: a result is larger than max_result_size",
                    ));
                }
            }
            (Expected::Result | Expected::Text, ServerMessage::Complete(tag)) => {
                self.result.complete(lua, tag)?;
            }
            (Expected::Result | Expected::Text, ServerMessage::Empty) => {
                self.result.complete(lua, b"")?;
            }
            _ => return Err(UNEXPECTED),
        }
        Ok(Event::Continue)
    }

    /// The server has ended its response.
    fn ready(&mut self, lua: &Lua) -> Step<Event> {
        let expected = std::mem::replace(&mut self.expected, Expected::Nothing);
        let result = std::mem::take(&mut self.result);
        let statement = std::mem::take(&mut self.statement);
        if let Some(error) = self.error.take() {
            return Ok(Event::Failed(error));
        }
        match expected {
            Expected::Login => done(lua, "ready"),
            Expected::Prepared => {
                let StatementParts { name, parameters, columns } = statement;
                let statement = Statement { name, parameters, columns: columns.into() };
                done(lua, lua.create_userdata(statement)?)
            }
            Expected::Result | Expected::Text => done(lua, result.finish().ok_or(UNEXPECTED)?),
            Expected::Nothing => Err(UNEXPECTED),
        }
    }

    fn notified(&mut self, lua: &Lua, process: u32, channel: &[u8], payload: &[u8]) -> Step<Event> {
        if self.notifications.len() >= POSTGRES_NOTIFICATIONS {
            return Err(MessageError::Reason("postgres: too many notifications are not read"));
        }
        let table = lua.create_table_with_capacity(0, 3)?;
        table.set("channel", lua.create_string(channel)?)?;
        table.set("payload", lua.create_string(payload)?)?;
        table.set("pid", process)?;
        self.notifications.push_back(table);
        Ok(Event::Continue)
    }
}

/// `true, "ready"` is the end of the login; else what the server wants.
fn authentication(lua: &Lua, wanted: Authentication<'_>) -> Step<Event> {
    match wanted {
        Authentication::Accepted => Ok(Event::Continue),
        Authentication::Password => done(lua, "password"),
        Authentication::Md5 { salt } => done(lua, ("md5", lua.create_string(salt)?)),
        Authentication::Sasl(mechanisms) => {
            let names: Result<Vec<_>> =
                mechanisms.iter().map(|name| lua.create_string(name)).collect();
            done(lua, ("sasl", names?))
        }
        Authentication::SaslContinue(data) => done(lua, ("continue", lua.create_string(data)?)),
        Authentication::SaslFinal(data) => done(lua, ("final", lua.create_string(data)?)),
        Authentication::Other(number) => done(lua, ("other", number)),
    }
}

fn done(lua: &Lua, values: impl IntoLuaMulti) -> Step<Event> {
    Ok(Event::Done(values.into_lua_multi(lua)?))
}

fn error_table(lua: &Lua, error: &ServerError<'_>) -> Result<Table> {
    let table = lua.create_table()?;
    table.set("type", "ERR")?;
    table.set("severity", lua.create_string(error.severity)?)?;
    table.set("sqlstate", lua.create_string(error.code)?)?;
    table.set("message", lua.create_string(error.message)?)?;
    for (name, text) in [
        ("detail", error.detail),
        ("hint", error.hint),
        ("position", error.position),
        ("table", error.table),
        ("column", error.column),
        ("constraint", error.constraint),
    ] {
        if let Some(text) = text {
            table.set(name, lua.create_string(text)?)?;
        }
    }
    Ok(table)
}

impl UserData for Session {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("feed", |_, session, bytes: LuaString| {
            session.messages.feed(&bytes.as_bytes());
            Ok(())
        });
        methods.add_method_mut("next", |lua, session, ()| session.next(lua));
        methods.add_method("startup", |lua, _, settings: Variadic<LuaString>| {
            let texts: Vec<_> = settings.iter().map(LuaString::as_bytes).collect();
            let (pairs, _) = texts.as_chunks::<2>();
            let pairs: Vec<(&[u8], &[u8])> =
                pairs.iter().map(|[name, value]| (&**name, &**value)).collect();
            lua.create_string(postgres::startup(&pairs))
        });
        methods.add_method("password", |lua, _, text: LuaString| {
            lua.create_string(postgres::password(&text.as_bytes()))
        });
        methods.add_method("sasl_initial", |lua, _, texts: (LuaString, LuaString)| {
            let (mechanism, first) = (texts.0.as_bytes(), texts.1.as_bytes());
            lua.create_string(postgres::sasl_initial(&mechanism, &first))
        });
        methods.add_method("sasl_response", |lua, _, data: LuaString| {
            lua.create_string(postgres::sasl_response(&data.as_bytes()))
        });
        // `text(sql)`: a statement without parameters.
        methods.add_method_mut("text", |lua, session, sql: LuaString| {
            session.begin(Expected::Text);
            lua.create_string(postgres::query(&sql.as_bytes()))
        });
        methods.add_method_mut("prepare", |lua, session, texts: (LuaString, LuaString)| {
            let (name, sql) = (texts.0.as_bytes(), texts.1.as_bytes());
            session.begin(Expected::Prepared);
            session.statement.name = name.to_vec();
            lua.create_string(postgres::prepare(&name, &sql))
        });
        // `release(statement)`: the response belongs to that of the next statement.
        methods.add_method("release", |lua, _, statement: AnyUserData| {
            let statement = statement.borrow::<Statement>()?;
            lua.create_string(postgres::close_statement(&statement.name))
        });
        methods.add_method_mut("execute", |lua, session, call: (AnyUserData, MultiValue)| {
            let statement = call.0.borrow::<Statement>()?;
            let packet = arguments::execute(&statement.name, &statement.parameters, &call.1)?;
            session.begin(Expected::Result);
            session.result = ResultRows::new(lua, statement.columns.clone())?;
            lua.create_string(packet)
        });
        methods.add_method("key", |_, session, ()| {
            Ok((session.key.map(|key| key.0), session.key.map(|key| key.1)))
        });
        // `state()`: "idle", "open" or "failed", of the transaction.
        methods.add_method("state", |_, session, ()| {
            Ok(match session.state {
                TransactionState::Idle => "idle",
                TransactionState::Open => "open",
                TransactionState::Failed => "failed",
            })
        });
        methods
            .add_method_mut("notification", |_, session, ()| Ok(session.notifications.pop_front()));
    }
}

impl Session {
    /// A statement is sent: what has arrived for the one before is gone.
    fn begin(&mut self, expected: Expected) {
        self.expected = expected;
        self.error = None;
        self.result = ResultRows::default();
        self.statement = StatementParts::default();
    }
}

#[cfg(test)]
mod tests;
