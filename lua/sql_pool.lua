-- Pools of connections to a database: what `store.mysql` and `store.postgres` have in common.
--
-- A connection executes one statement at a time. A connection whose response was not read to its
-- end (time-out, lost connection, ended coroutine) is closed, as is one that `is_altered` for its next
-- user, and no statement is sent twice.
--
-- Called with the name of the module, which begins its errors. Returns `checked`, `failure`, the
-- parts of a connection (`fail`, `usable`, `exchange`, `respond`, `methods`) and `new`.
return function(name)
  local tcp = require "silly.net.tcp"
  local time = require "silly.time"
  local errno = require "silly.errno"
  local newpool = require "silly.pool".new

  local CHUNK_BYTES = 64 * 1024
  -- Longer than any program waits: 24 days.
  local UNLIMITED_MS = 1 << 31
  local OPEN_CONNS, IDLE_SECONDS = 100, 60

  local M = {}

  --- Options are checked when a pool is made, so that an error shows its position.
  function M.checked(given, defaults)
    if type(given) ~= "table" then
      error("bad argument #1 to 'open' (table expected, got " .. type(given) .. ")", 3)
    end
    local options = { tls = given.tls or nil }
    for key, default in pairs(defaults) do
      local value = given[key]
      if value == nil then value = default end
      if math.type(value) ~= math.type(default) or type(value) ~= type(default)
        or type(value) == "number" and value < 0 then
        local kind = math.type(default) or type(default)
        error(("bad argument #1 to 'open' (%s: %s expected)"):format(key, kind), 3)
      end
      options[key] = value
    end
    for _, key in ipairs{ "max_idle_conns", "max_idle_time" } do
      local value = given[key]
      if value ~= nil and (math.type(value) ~= "integer" or value < 0) then
        error(("bad argument #1 to 'open' (%s: integer expected)"):format(key), 3)
      end
      options[key] = value
    end
    if options.tls ~= nil and options.tls ~= true and type(options.tls) ~= "table" then
      error("bad argument #1 to 'open' (tls: true or a table expected)", 3)
    end
    return options
  end

  function M.failure(message, lost)
    return { type = "ERR", message = message, lost = lost }
  end
  local failure = M.failure

  --- Opens the socket of a connection; or nil and an error.
  function M.dial(options)
    local sock, why = tcp.connect(options.addr, { timeout = options.connect_timeout })
    if not sock then
      return nil, failure(("connect to %s failed: %s"):format(options.addr, why))
    end
    return sock
  end

  --- The options of TLS for a connection that is to be ready at `due`.
  function M.tls_options(options, due)
    local all = { hostname = options.addr:match("^%[?(.-)%]?:%d+$") }
    for key, value in pairs(options.tls == true and {} or options.tls) do all[key] = value end
    all.timeout = math.max(due - time.monotonic(), 1)
    return all
  end

  --- The connection is of no more use.
  local function fail(conn, why, lost)
    conn.broken, conn.busy = why, false
    conn.sock:close()
    return nil, failure(why, lost)
  end
  M.fail = fail

  --- Waits for the response to what was sent: what `next` of the session returns after `true`, or
  --- nil, err.
  local function respond(conn, due, ok, ...)
    if ok == nil then
      local data, why = conn.sock:readall(CHUNK_BYTES, due and math.max(due - time.monotonic(), 0))
      if not data then
        if why == errno.TIMEDOUT then
          -- The server may still execute the statement.
          why, conn.is_late = "no response in time", true
        end
        return fail(conn, name .. ": " .. why, true)
      end
      conn.session:feed(data)
      return respond(conn, due, conn.session:next())
    end
    if ok == "fault" then return fail(conn, (...), true) end
    if ok == "fatal" then
      -- The server has ended the connection, and says why.
      local err = ...
      fail(conn, err.message)
      err.lost = true
      return nil, err
    end
    conn.busy = false
    if not ok then return nil, ... end
    return ...
  end

  --- Reads the next response, until `due`.
  function M.respond(conn, due) return respond(conn, due, conn.session:next()) end

  --- Sends a packet and waits for the response.
  function M.exchange(conn, packet)
    conn.busy = true
    local ok, why = conn.sock:write(packet)
    if not ok then return fail(conn, name .. ": " .. why, true) end
    local timeout = conn.options.timeout
    return respond(conn, timeout > 0 and time.monotonic() + timeout or nil, conn.session:next())
  end

  --- The response to a packet of the login, until `due`.
  function M.reply(conn, due, packet)
    local ok, why = conn.sock:write(packet)
    if not ok then return fail(conn, name .. ": " .. why) end
    return M.respond(conn, due)
  end

  --- Why a connection cannot execute a statement now; nil if it can.
  function M.usable(conn)
    if conn.broken then return failure(conn.broken) end
    if not conn.pool then return failure(name .. ": the connection is closed") end
    if conn.busy then return failure(name .. ": another coroutine uses the connection") end
  end

  --- Adds `ping`, `commit`, `rollback` and `close` to a class of connections. `command(conn, text)`
  --- executes a text without parameters, `ping(conn)` waits for a response of the server.
  function M.methods(Connection, command, ping)
    function Connection:ping()
      local err = M.usable(self)
      if err then return nil, err end
      return ping(self)
    end

    for _, method in ipairs{ "commit", "rollback" } do
      --- `commit()` and `rollback()` → ok; or nil, err. They end the transaction.
      Connection[method] = function(self)
        local err = M.usable(self)
        if err then return nil, err end
        if not self.transaction then return nil, failure("not in transaction") end
        self.transaction = false
        return command(self, method:upper())
      end
    end

    --- `close()`: gives the connection back to its pool; an open transaction is rolled back.
    function Connection:close()
      local pool = self.pool
      if not pool then return end
      if self.transaction and not self.broken and not self.busy then
        -- A coroutine that is being closed cannot wait; the server rolls back when the connection
        -- ends.
        if not (coroutine.isyieldable() and self:rollback()) then
          self.broken = name .. ": not rolled back"
        end
      end
      self.pool, self.transaction = nil, nil
      local limit = self.options.max_idle_conns
      if self.broken or self.busy or self.is_altered or limit and pool:stat().idle >= limit then
        pool:drop(self)
      else
        pool:give(self)
      end
    end

    Connection.__close = Connection.close
  end

  --- A class of pools, and `new(options)` of it. `driver` has `connect(options)` → conn; or nil,
  --- err, `quit(conn)`, and `begin(conn)` → ok; or nil, err.
  function M.class(driver)
    local Pool = {}
    Pool.__index = Pool
    local hidden = setmetatable({}, { __mode = "k" })

    --- A connection that is closed to give it back; or nil, err.
    local function take(self)
      local pool = hidden[self]
      local conn, why = pool:take()
      if not conn then
        if why == errno.TIMEDOUT then why = name .. ": no connection became free in time" end
        return nil, type(why) == "table" and why or failure(why)
      end
      conn.pool = pool
      return conn
    end

    --- `query(sql, …)` → rows or ok; or nil, err
    function Pool:query(sql, ...)
      local conn <close>, err = take(self)
      if not conn then return nil, err end
      return conn:query(sql, ...)
    end

    --- `ping()` → ok; or nil, err
    function Pool:ping()
      local conn <close>, err = take(self)
      if not conn then return nil, err end
      return conn:ping()
    end

    --- `begin()` → a connection in a transaction; or nil, err
    function Pool:begin()
      local conn, err = take(self)
      if not conn then return nil, err end
      local giving <close> = setmetatable({}, { __close = function()
        if not conn.transaction then conn:close() end
      end })
      err = M.usable(conn)
      if err then return nil, err end
      local ok
      ok, err = driver.begin(conn)
      if not ok then return nil, err end
      conn.transaction = true
      return conn
    end

    --- `stat()` → the counts of `silly.pool`
    function Pool:stat() return hidden[self]:stat() end

    --- `close()`: idle connections are closed now, others when their statements have ended.
    function Pool:close() hidden[self]:close() end

    Pool.__close = Pool.close

    return Pool, function(options)
      local function limit(seconds) return seconds > 0 and seconds * 1000 or UNLIMITED_MS end
      local self = setmetatable({}, Pool)
      hidden[self] = newpool{
        open = function() return driver.connect(options) end,
        close = function(conn)
          driver.quit(conn)
          conn.sock:close()
        end,
        check = function(conn) return conn.sock:isalive() end,
        max = options.max_open_conns > 0 and options.max_open_conns or OPEN_CONNS,
        wait = options.timeout > 0 and options.timeout or UNLIMITED_MS,
        idle = limit(options.max_idle_time or IDLE_SECONDS),
        lifetime = options.max_lifetime > 0 and options.max_lifetime * 1000 or nil,
      }
      return self
    end
  end

  return M
end
