-- `store.mysql`: a pool of connections to MySQL or MariaDB, whose statements are prepared.
--
-- A connection executes one statement at a time. A connection whose response was not read to its
-- end (time-out, lost connection, ended coroutine) is closed, and no statement is sent twice.
return function(raw)
  local task = require "silly.task"
  local tcp = require "silly.net.tcp"
  local tls = require "silly.net.tls"
  local time = require "silly.time"
  local errno = require "silly.errno"
  local hash = require "silly.crypto.hash".hash
  local pkey = require "silly.crypto.pkey"
  local newpool = require "silly.pool".new

  local CHUNK_BYTES = 64 * 1024
  -- Statements that a connection keeps prepared; a full cache is emptied.
  local STATEMENTS = 256
  -- Longer than any program waits: 24 days.
  local UNLIMITED_MS = 1 << 31
  local QUIT, QUERY, PING = 0x01, 0x03, 0x0e

  local DEFAULTS = {
    addr = "127.0.0.1:3306", user = "", password = "", database = "", charset = "_default",
    max_packet_size = 64 << 20, max_result_size = 256 << 20, max_open_conns = 0, max_lifetime = 0,
    connect_timeout = 10000, timeout = 60000,
  }
  local OPEN_CONNS, IDLE_SECONDS = 100, 60

  -- The default collation of each character set.
  local CHARSETS = {
    _default = 45, big5 = 1, dec8 = 3, cp850 = 4, hp8 = 6, koi8r = 7, latin1 = 8, latin2 = 9,
    swe7 = 10, ascii = 11, ujis = 12, sjis = 13, hebrew = 16, tis620 = 18, euckr = 19, koi8u = 22,
    gb2312 = 24, greek = 25, cp1250 = 26, gbk = 28, latin5 = 30, armscii8 = 32, utf8 = 33,
    ucs2 = 35, cp866 = 36, keybcs2 = 37, macce = 38, macroman = 39, cp852 = 40, latin7 = 41,
    utf8mb4 = 45, cp1251 = 51, utf16 = 54, utf16le = 56, cp1256 = 57, cp1257 = 59, utf32 = 60,
    binary = 63, geostd8 = 92, cp932 = 95, eucjpms = 97, gb18030 = 248,
  }

  --- Options are checked when a pool is made, so that an error shows its position.
  local function checked(given)
    if type(given) ~= "table" then
      error("bad argument #1 to 'open' (table expected, got " .. type(given) .. ")", 3)
    end
    local options = { tls = given.tls or nil }
    for name, default in pairs(DEFAULTS) do
      local value = given[name]
      if value == nil then value = default end
      if math.type(value) ~= math.type(default) or type(value) ~= type(default)
        or type(value) == "number" and value < 0 then
        local kind = math.type(default) or type(default)
        error(("bad argument #1 to 'open' (%s: %s expected)"):format(name, kind), 3)
      end
      options[name] = value
    end
    for _, name in ipairs{ "max_idle_conns", "max_idle_time" } do
      local value = given[name]
      if value ~= nil and (math.type(value) ~= "integer" or value < 0) then
        error(("bad argument #1 to 'open' (%s: integer expected)"):format(name), 3)
      end
      options[name] = value
    end
    options.collation = CHARSETS[options.charset]
    if not options.collation then
      error(("bad argument #1 to 'open' (charset: %q is unknown)"):format(options.charset), 3)
    end
    if options.tls ~= nil and options.tls ~= true and type(options.tls) ~= "table" then
      error("bad argument #1 to 'open' (tls: true or a table expected)", 3)
    end
    return options
  end

  local function failure(message, lost)
    return { type = "ERR", message = message, lost = lost }
  end

  local function xor(a, b)
    local bytes = {}
    for at = 1, #a do bytes[at] = string.char(a:byte(at) ~ b:byte((at - 1) % #b + 1)) end
    return table.concat(bytes)
  end

  -- What each plugin makes of a password and the server's random bytes.
  local PROOFS = {}

  function PROOFS.mysql_native_password(password, scramble)
    local once = hash("sha1", password)
    return xor(once, hash("sha1", scramble .. hash("sha1", once)))
  end

  function PROOFS.caching_sha2_password(password, scramble)
    local once = hash("sha256", password)
    return xor(once, hash("sha256", hash("sha256", once) .. scramble))
  end

  -- Requests the server's key; under TLS `login` sends the password itself.
  function PROOFS.sha256_password() return "\1" end

  local Connection = {}
  Connection.__index = Connection

  --- The connection is of no more use.
  local function fail(conn, why, lost)
    conn.broken = why
    conn.sock:close()
    return nil, failure(why, lost)
  end

  --- Waits for the response to what was sent: what `raw`'s `next` returns after `true`, or nil, err.
  local function respond(conn, due, ok, ...)
    if ok == nil then
      local data, why = conn.sock:readall(CHUNK_BYTES, due and math.max(due - time.monotonic(), 0))
      if not data then
        if why == errno.TIMEDOUT then why = "no response in time" end
        return fail(conn, "mysql: " .. why, true)
      end
      conn.session:feed(data)
      return respond(conn, due, conn.session:next())
    end
    if ok == "fault" then return fail(conn, (...), true) end
    conn.busy = false
    if not ok then return nil, ... end
    return ...
  end

  --- Sends a packet and waits for the response.
  local function exchange(conn, packet)
    conn.busy = true
    local ok, why = conn.sock:write(packet)
    if not ok then return fail(conn, "mysql: " .. why, true) end
    local timeout = conn.options.timeout
    return respond(conn, timeout > 0 and time.monotonic() + timeout or nil, conn.session:next())
  end

  --- The response to a packet of the login, until `due`.
  local function reply(conn, due, proof)
    local ok, why = conn.sock:write(proof)
    if not ok then return fail(conn, "mysql: " .. why) end
    return respond(conn, due, conn.session:next())
  end

  --- The password, encrypted with the key of the server, for a connection in the clear.
  local function encrypted(options, scramble, pem)
    local key, why = pkey.new(pem)
    local bytes
    if key then
      local text = xor(options.password .. "\0", scramble)
      bytes, why = key:encrypt(text, pkey.RSA_PKCS1_OAEP, "sha1")
    end
    return bytes, not bytes and "mysql: the server's key: " .. why
  end

  --- The bytes that answer a plugin's request.
  local function proof_of(conn, plugin, scramble)
    local password = conn.options.password
    if password == "" then return "" end
    if plugin == "sha256_password" and conn.secure then return password .. "\0" end
    local prove = PROOFS[plugin]
    if prove then return prove(password, scramble) end
    return nil, ("mysql: the server requires %q, which is not supported"):format(plugin)
  end

  --- What follows the reply to the greeting, until the server accepts or rejects: true, or nil, err.
  local function authenticate(conn, due, plugin, scramble, kind, data, random)
    -- No plugin needs as many steps; a server that continues is none.
    for _ = 1, 8 do
      if kind == nil then return nil, data end
      if kind == "accepted" then return true end
      local bytes, why
      if kind == "switch" then
        plugin, scramble = data, random
        bytes, why = proof_of(conn, plugin, scramble)
      elseif data == "\4" then
        -- The server has no hash of the password in memory.
        bytes = conn.secure and conn.options.password .. "\0" or "\2"
      elseif data ~= "\3" then
        bytes, why = encrypted(conn.options, scramble, data)
      end
      if why then return nil, failure(why) end
      if bytes then
        kind, data, random = reply(conn, due, conn.session:proof(bytes))
      else
        kind, data, random = respond(conn, due, conn.session:next())
      end
    end
    return nil, failure("mysql: the login does not end")
  end

  --- Begins TLS, if it is wanted. A server without TLS is an error, never a connection in the clear.
  local function secure(conn, due, login, greeting)
    local given = conn.options.tls
    conn.secure = conn.options.addr:find("^unix:") ~= nil
    if not given then return true end
    if not greeting.tls then return nil, failure("mysql: the server has no TLS") end
    local options = { hostname = conn.options.addr:match("^%[?(.-)%]?:%d+$") }
    for name, value in pairs(given == true and {} or given) do options[name] = value end
    options.timeout = math.max(due - time.monotonic(), 1)
    conn.sock:write(conn.session:login(login, true))
    local ok, why, detail = tls.upgrade(conn.sock, options)
    if not ok then return nil, failure(("mysql: TLS failed: %s"):format(detail or why)) end
    conn.secure = true
    return true
  end

  --- Connects and logs in; a connection, or nil and an error.
  local function connect(options)
    local due = time.monotonic() + options.connect_timeout
    local sock, why = tcp.connect(options.addr, { timeout = options.connect_timeout })
    if not sock then
      return nil, failure(("connect to %s failed: %s"):format(options.addr, why))
    end
    local session = raw.session(options.max_packet_size, options.max_result_size)
    local conn = setmetatable({
      sock = sock, session = session, options = options, statements = {}, count = 0,
    }, Connection)
    local ok, err = respond(conn, due, session:next())
    if ok then
      local plugin, scramble = ok.plugin, ok.scramble
      -- The server switches to the plugin of the user.
      if not PROOFS[plugin] then plugin = "mysql_native_password" end
      local login = {
        user = options.user, database = options.database, charset = options.collation,
        max_packet = math.min(options.max_packet_size, 1 << 30), tls = options.tls ~= nil,
        plugin = plugin, proof = "",
      }
      ok, err = secure(conn, due, login, ok)
      if ok then
        login.proof = proof_of(conn, plugin, scramble)
        local packet = session:login(login, false)
        ok, err = authenticate(conn, due, plugin, scramble, reply(conn, due, packet))
      end
    end
    if ok then return conn end
    err.lost = nil
    sock:close()
    return nil, err
  end

  local function usable(conn)
    if conn.broken then return failure(conn.broken) end
    if not conn.pool then return failure("mysql: the connection is closed") end
    if conn.busy then return failure("mysql: another coroutine uses the connection") end
  end

  local function prepare(conn, sql)
    if conn.count >= STATEMENTS then
      local packets = {}
      for _, statement in pairs(conn.statements) do
        table.insert(packets, conn.session:release(statement.id))
      end
      conn.statements, conn.count = {}, 0
      conn.sock:write(packets)
    end
    local id, parameters = exchange(conn, conn.session:prepare(sql))
    if not id then return nil, parameters end
    local statement = { id = id, parameters = parameters }
    conn.statements[sql] = statement
    conn.count = conn.count + 1
    return statement
  end

  --- `query(sql, …)` → rows or the OK packet; or nil, err. Of a procedure with several results the
  --- first is returned, and a list of the others third.
  function Connection:query(sql, ...)
    if type(sql) ~= "string" then
      error("bad argument #1 to 'query' (string expected, got " .. type(sql) .. ")", 2)
    end
    local err = usable(self)
    if err then return nil, err end
    local statement = self.statements[sql]
    if not statement then
      statement, err = prepare(self, sql)
      if not statement then return nil, err end
    end
    local given = select("#", ...)
    if given ~= statement.parameters then
      error(("require param_count: %d get arg_num: %d"):format(statement.parameters, given), 2)
    end
    return exchange(self, self.session:execute(statement.id, ...))
  end

  local function command(conn, code, text)
    local err = usable(conn)
    if err then return nil, err end
    return exchange(conn, conn.session:command(code, text))
  end

  --- `ping()` → the OK packet; or nil, err
  function Connection:ping() return command(self, PING) end

  for _, name in ipairs{ "commit", "rollback" } do
    --- `commit()` and `rollback()` → the OK packet; or nil, err. They end the transaction.
    Connection[name] = function(self)
      local err = usable(self)
      if err then return nil, err end
      if not self.transaction then return nil, failure("not in transaction") end
      self.transaction = false
      return command(self, QUERY, name:upper())
    end
  end

  --- `close()`: gives the connection back to its pool; an open transaction is rolled back.
  function Connection:close()
    local pool = self.pool
    if not pool then return end
    if self.transaction and not self.broken and not self.busy then
      -- A coroutine that is being closed cannot wait; the server rolls back when the connection ends.
      if not (coroutine.isyieldable() and self:rollback()) then self.broken = "mysql: not rolled back" end
    end
    self.pool, self.transaction = nil, nil
    local limit = self.options.max_idle_conns
    if self.broken or self.busy or limit and pool:stat().idle >= limit then
      pool:drop(self)
    else
      pool:give(self)
    end
  end

  Connection.__close = Connection.close

  local Pool = {}
  Pool.__index = Pool
  local hidden = setmetatable({}, { __mode = "k" })

  --- A connection that is closed to give it back; or nil, err.
  local function take(self)
    local pool = hidden[self]
    local conn, why = pool:take()
    if not conn then
      if why == errno.TIMEDOUT then why = "mysql: no connection became free in time" end
      return nil, type(why) == "table" and why or failure(why)
    end
    conn.pool = pool
    return conn
  end

  --- `query(sql, …)` → rows or the OK packet; or nil, err
  function Pool:query(sql, ...)
    local conn <close>, err = take(self)
    if not conn then return nil, err end
    return conn:query(sql, ...)
  end

  --- `ping()` → the OK packet; or nil, err
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
    local ok
    ok, err = command(conn, QUERY, "BEGIN")
    if not ok then return nil, err end
    conn.transaction = true
    return conn
  end

  --- `stat()` → the counts of `silly.pool`
  function Pool:stat() return hidden[self]:stat() end

  --- `close()`: idle connections are closed now, others when their statements have ended.
  function Pool:close() hidden[self]:close() end

  Pool.__close = Pool.close

  --- `open{ addr, user, password, database, charset, tls, timeout, connect_timeout, max_… }` → pool
  local function open(given)
    local options = checked(given)
    local function limit(seconds) return seconds > 0 and seconds * 1000 or UNLIMITED_MS end
    local lasts = options.timeout > 0 and options.timeout or UNLIMITED_MS
    local self = setmetatable({}, Pool)
    hidden[self] = newpool{
      open = function() return connect(options) end,
      close = function(conn)
        if not conn.broken and not conn.busy then conn.sock:write(conn.session:command(QUIT)) end
        conn.sock:close()
      end,
      check = function(conn) return conn.sock:isalive() end,
      max = options.max_open_conns > 0 and options.max_open_conns or OPEN_CONNS,
      wait = lasts,
      idle = limit(options.max_idle_time or IDLE_SECONDS),
      lifetime = options.max_lifetime > 0 and options.max_lifetime * 1000 or nil,
    }
    return self
  end

  return { open = open }
end
