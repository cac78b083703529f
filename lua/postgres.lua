-- `store.postgres`: a pool of connections to PostgreSQL, whose statements are prepared.
return function(raw)
  local task = require "silly.task"
  local tls = require "silly.net.tls"
  local time = require "silly.time"
  local errno = require "silly.errno"
  local json = require "silly.encoding.json"
  local hash = require "silly.crypto.hash".hash
  local hex = require "silly.encoding.hex".encode
  local equal = require "silly.crypto.utils".equal
  local sql = raw.sql_pool "postgres"
  local failure, usable, exchange, respond, reply =
    sql.failure, sql.usable, sql.exchange, sql.respond, sql.reply

  local CHUNK_BYTES = 64 * 1024
  -- Statements that a connection keeps prepared; a full cache is emptied.
  local STATEMENTS = 256
  local CANCEL_MS = 5000

  local DEFAULTS = {
    addr = "127.0.0.1:5432", user = "", password = "", database = "", application_name = "tidegate",
    max_packet_size = 64 << 20, max_result_size = 256 << 20, max_open_conns = 0, max_lifetime = 0,
    connect_timeout = 10000, timeout = 60000,
  }

  local Connection = {}
  Connection.__index = Connection

  --- Begins TLS, if it is wanted. A server without TLS is an error, never a connection in the clear.
  local function secure(conn, due)
    local sock, options = conn.sock, conn.options
    conn.secure = options.addr:find("^unix:") ~= nil
    if not options.tls then return true end
    local ok, why = sock:write(raw.tls_request)
    local byte
    if ok then byte, why = sock:read(1, math.max(due - time.monotonic(), 0)) end
    if not byte then return nil, failure("postgres: " .. why) end
    if byte ~= "S" then return nil, failure("postgres: the server has no TLS") end
    -- Bytes in the clear behind the response could be another's.
    if sock:unreadbytes() > 0 then return nil, failure("postgres: the server sent bytes before TLS") end
    local detail
    ok, why, detail = tls.upgrade(sock, sql.tls_options(options, due))
    if not ok then return nil, failure(("postgres: TLS failed: %s"):format(detail or why)) end
    conn.secure = true
    return true
  end

  --- SCRAM-SHA-256: what the server says after its proof; or nil, err.
  local function scram(conn, due, mechanisms)
    local known = false
    for _, name in ipairs(mechanisms) do known = known or name == "SCRAM-SHA-256" end
    if not known then
      return nil, failure("postgres: the server requires another mechanism than SCRAM-SHA-256")
    end
    local first, session = raw.scram_first(), conn.session
    local kind, data = reply(conn, due, session:sasl_initial("SCRAM-SHA-256", "n,," .. first))
    if not kind then return nil, data end
    if kind ~= "continue" then return nil, failure "postgres: the server ended SCRAM early" end
    local last, expected = raw.scram_final(first, data, conn.options.password)
    if not last then return nil, failure(expected) end
    kind, data = reply(conn, due, session:sasl_response(last))
    if not kind then return nil, data end
    if kind ~= "final" or not equal(data, expected) then
      return nil, failure "postgres: the server does not know the password's hash"
    end
    return respond(conn, due)
  end

  --- Logs in: true, or nil and an error.
  local function authenticate(conn, due)
    local options, session = conn.options, conn.session
    local packet = session:startup("user", options.user, "database",
      options.database ~= "" and options.database or options.user,
      "application_name", options.application_name, "client_encoding", "UTF8",
      "DateStyle", "ISO", "bytea_output", "hex")
    local kind, data = reply(conn, due, packet)
    if kind == "password" then
      if not conn.secure then
        return nil, failure "postgres: the server requires the password in the clear, which needs tls"
      end
      kind, data = reply(conn, due, session:password(options.password))
    elseif kind == "md5" then
      local inner = hex(hash("md5", options.password .. options.user))
      local proof = "md5" .. hex(hash("md5", inner .. data))
      kind, data = reply(conn, due, session:password(proof))
    elseif kind == "sasl" then
      kind, data = scram(conn, due, data)
    end
    if kind == "ready" then return true end
    if kind == nil then return nil, data end
    return nil, failure(("postgres: the server requires %s, which is not supported"):format(kind))
  end

  --- Connects and logs in; a connection, or nil and an error.
  local function connect(options)
    local due = time.monotonic() + options.connect_timeout
    local sock, err = sql.dial(options)
    if not sock then return nil, err end
    local conn = setmetatable({
      sock = sock, session = raw.session(options.max_packet_size, options.max_result_size),
      options = options, statements = {}, count = 0, named = 0,
    }, Connection)
    local ok
    ok, err = secure(conn, due)
    if ok then ok, err = authenticate(conn, due) end
    if ok then return conn end
    err.lost = nil
    sock:close()
    return nil, err
  end

  --- Cancels what the server executes for a connection that is given up.
  local function cancel(conn)
    local process, key = conn.session:key()
    if not process then return end
    local options = setmetatable({ connect_timeout = CANCEL_MS }, { __index = conn.options })
    local other = { sock = sql.dial(options), options = options }
    if other.sock and secure(other, time.monotonic() + CANCEL_MS) then
      other.sock:write(raw.cancel(process, key))
      -- The server closes the connection when it has sent the signal.
      other.sock:read(1, CANCEL_MS)
    end
    if other.sock then other.sock:close() end
  end

  --- The messages that release statements, all of a full cache.
  local function released(conn)
    local packets = conn.released or {}
    conn.released = nil
    if conn.count >= STATEMENTS then
      for _, statement in pairs(conn.statements) do
        table.insert(packets, conn.session:release(statement))
      end
      conn.statements, conn.count = {}, 0
    end
    return packets
  end

  local function prepare(conn, text)
    conn.named = conn.named + 1
    local packets = released(conn)
    table.insert(packets, conn.session:prepare("s" .. conn.named, text))
    local statement, err = exchange(conn, packets)
    if not statement then return nil, err end
    conn.statements[text] = statement
    conn.count = conn.count + 1
    return statement
  end

  --- Tables become JSON or arrays, as the type of their parameter is.
  local function converted(statement, first, ...)
    local values = table.pack(...)
    for at = 1, values.n do
      local value = values[at]
      if type(value) == "table" then
        local kind = statement:kind(at)
        if kind == "json" then
          local text, why = json.encode(value)
          if not text then error(("parameter %d: %s"):format(at, why), 4) end
          values[at] = text
        elseif kind then
          values[at] = raw.array(value, kind == "bytea[]")
        end
      end
    end
    return first, table.unpack(values, 1, values.n)
  end

  local function execute(conn, text, ...)
    local statement, err = conn.statements[text], nil
    if not statement then
      statement, err = prepare(conn, text)
      if not statement then return nil, err end
    end
    local given, count = select("#", ...), statement:count()
    if given ~= count then
      error(("require param_count: %d get arg_num: %d"):format(count, given), 3)
    end
    return exchange(conn, conn.session:execute(converted(statement, statement, ...)))
  end

  -- A statement whose columns have changed since it was prepared; one that the server forgot.
  local STALE = { ["0A000"] = "cached plan must not change result type", ["26000"] = "" }

  --- `query(text, …)` → rows, or ok without rows; or nil, err
  function Connection:query(text, ...)
    if type(text) ~= "string" then
      error("bad argument #1 to 'query' (string expected, got " .. type(text) .. ")", 2)
    end
    local err = usable(self)
    if err then return nil, err end
    local known = self.statements[text]
    local result
    result, err = execute(self, text, ...)
    local stale = known and err and STALE[err.sqlstate]
    if stale and err.message:find(stale, 1, true) then
      self.statements[text], self.count = nil, self.count - 1
      self.released = self.released or {}
      table.insert(self.released, self.session:release(known))
      -- It was not executed. Within a transaction the server refuses all until it ends.
      if self.session:state() == "idle" then return execute(self, text, ...) end
    end
    -- A transaction that a text such as `begin` has opened is rolled back by `close` too.
    if self.session:state() ~= "idle" then self.transaction = true end
    return result, err
  end

  local function command(conn, text)
    local failed = text == "COMMIT" and conn.session:state() == "failed"
    local ok, err = exchange(conn, conn.session:text(text))
    if ok and failed then
      return nil, failure "the transaction was rolled back, because one of its statements failed"
    end
    return ok, err
  end

  sql.methods(Connection, command, function(conn) return exchange(conn, conn.session:text "") end)

  local Pool, new = sql.class{
    connect = connect,
    quit = function(conn)
      if conn.busy or conn.is_late then
        -- The response was not awaited: the statement is of no more use.
        task.fork(cancel, conn)
      elseif not conn.broken then
        conn.sock:write(raw.terminate)
      end
    end,
    begin = function(conn) return command(conn, "BEGIN") end,
  }

  -- Notifications of channels, on a connection of its own.
  local Subscription = {}
  Subscription.__index = Subscription

  local function identifier(name)
    if type(name) ~= "string" or name == "" or name:find "\0" then
      error("bad argument #1 (the name of a channel expected)", 3)
    end
    return '"' .. name:gsub('"', '""') .. '"'
  end

  --- `listen(channel)` and `unlisten(channel)` → true; or nil, err
  for _, method in ipairs{ "listen", "unlisten" } do
    Subscription[method] = function(self, channel)
      local conn = self.conn
      local text = ("%s %s"):format(method:upper(), identifier(channel))
      local err = usable(conn)
      if err then return nil, err end
      local ok
      ok, err = exchange(conn, conn.session:text(text))
      if not ok then return nil, err end
      return true
    end
  end

  --- `read([ms])` → { channel, payload, pid }; or nil, err
  function Subscription:read(ms)
    local conn, due = self.conn, ms and time.monotonic() + ms
    while true do
      local found = conn.session:notification()
      if found then return found end
      local err = usable(conn)
      if err then return nil, err.message end
      local left = due and math.max(due - time.monotonic(), 0)
      local data, why = conn.sock:readall(CHUNK_BYTES, left)
      if not data then
        if why ~= errno.TIMEDOUT then sql.fail(conn, why) end
        return nil, why
      end
      conn.session:feed(data)
      local kind, detail = conn.session:next()
      if kind ~= nil then
        local reason = type(detail) == "table" and detail.message or detail
        sql.fail(conn, reason)
        return nil, reason
      end
    end
  end

  --- `close()`: ends the connection.
  function Subscription:close()
    if self.conn.broken then return end
    self.conn.sock:write(raw.terminate)
    sql.fail(self.conn, errno.CLOSED)
  end

  Subscription.__close = Subscription.close

  local options_of = setmetatable({}, { __mode = "k" })

  --- `listen(channel, …)` → subscription; or nil, err
  function Pool:listen(...)
    if select("#", ...) == 0 then error("bad argument #1 to 'listen' (a channel expected)", 2) end
    local conn, err = connect(options_of[self])
    if not conn then return nil, err end
    conn.pool = self
    local opened <close> = setmetatable({ conn = conn }, { __close = function(it)
      if it.conn then it.conn.sock:close() end
    end })
    local subscription = setmetatable({ conn = conn }, Subscription)
    for _, channel in ipairs{ ... } do
      local ok
      ok, err = subscription:listen(channel)
      if not ok then return nil, err end
    end
    opened.conn = nil
    return subscription
  end

  --- `open{ addr, user, password, database, application_name, tls, timeout, … }` → pool
  local function open(given)
    local options = sql.checked(given, DEFAULTS)
    for _, key in ipairs{ "user", "database", "application_name" } do
      if options[key]:find "\0" then
        error(("bad argument #1 to 'open' (%s: a zero byte)"):format(key), 2)
      end
    end
    if options.user == "" then error("bad argument #1 to 'open' (user: a name expected)", 2) end
    local pool = new(options)
    options_of[pool] = options
    return pool
  end

  return { open = open }
end
