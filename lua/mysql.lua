-- `store.mysql`: a pool of connections to MySQL or MariaDB, whose statements are prepared.
return function(raw)
  local tls = require "silly.net.tls"
  local time = require "silly.time"
  local hash = require "silly.crypto.hash".hash
  local pkey = require "silly.crypto.pkey"
  local sql = raw.sql_pool "mysql"
  local failure, usable, exchange, respond, reply =
    sql.failure, sql.usable, sql.exchange, sql.respond, sql.reply

  -- Statements that a connection keeps prepared; a full cache is emptied.
  local STATEMENTS = 256
  local QUIT, QUERY, PING = 0x01, 0x03, 0x0e

  local DEFAULTS = {
    addr = "127.0.0.1:3306", user = "", password = "", database = "", charset = "_default",
    max_packet_size = 64 << 20, max_result_size = 256 << 20, max_open_conns = 0, max_lifetime = 0,
    connect_timeout = 10000, timeout = 60000,
  }

  -- The default collation of each character set.
  local CHARSETS = {
    _default = 45, big5 = 1, dec8 = 3, cp850 = 4, hp8 = 6, koi8r = 7, latin1 = 8, latin2 = 9,
    swe7 = 10, ascii = 11, ujis = 12, sjis = 13, hebrew = 16, tis620 = 18, euckr = 19, koi8u = 22,
    gb2312 = 24, greek = 25, cp1250 = 26, gbk = 28, latin5 = 30, armscii8 = 32, utf8 = 33,
    ucs2 = 35, cp866 = 36, keybcs2 = 37, macce = 38, macroman = 39, cp852 = 40, latin7 = 41,
    utf8mb4 = 45, cp1251 = 51, utf16 = 54, utf16le = 56, cp1256 = 57, cp1257 = 59, utf32 = 60,
    binary = 63, geostd8 = 92, cp932 = 95, eucjpms = 97, gb18030 = 248,
  }

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
        kind, data, random = respond(conn, due)
      end
    end
    return nil, failure("mysql: the login does not end")
  end

  --- Begins TLS, if it is wanted. A server without TLS is an error, never a connection in the clear.
  local function secure(conn, due, login, greeting)
    conn.secure = conn.options.addr:find("^unix:") ~= nil
    if not conn.options.tls then return true end
    if not greeting.tls then return nil, failure("mysql: the server has no TLS") end
    conn.sock:write(conn.session:login(login, true))
    local ok, why, detail = tls.upgrade(conn.sock, sql.tls_options(conn.options, due))
    if not ok then return nil, failure(("mysql: TLS failed: %s"):format(detail or why)) end
    conn.secure = true
    return true
  end

  --- Connects and logs in; a connection, or nil and an error.
  local function connect(options)
    local due = time.monotonic() + options.connect_timeout
    local sock, err = sql.dial(options)
    if not sock then return nil, err end
    local session = raw.session(options.max_packet_size, options.max_result_size)
    local conn = setmetatable({
      sock = sock, session = session, options = options, statements = {}, count = 0,
    }, Connection)
    local ok
    ok, err = respond(conn, due)
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

  local function prepare(conn, text)
    if conn.count >= STATEMENTS then
      local packets = {}
      for _, statement in pairs(conn.statements) do
        table.insert(packets, conn.session:release(statement.id))
      end
      conn.statements, conn.count = {}, 0
      conn.sock:write(packets)
    end
    local id, parameters = exchange(conn, conn.session:prepare(text))
    if not id then return nil, parameters end
    local statement = { id = id, parameters = parameters }
    conn.statements[text] = statement
    conn.count = conn.count + 1
    return statement
  end

  --- `query(text, …)` → rows or the OK packet; or nil, err. Of a procedure with several results the
  --- first is returned, and a list of the others third.
  function Connection:query(text, ...)
    if type(text) ~= "string" then
      error("bad argument #1 to 'query' (string expected, got " .. type(text) .. ")", 2)
    end
    local err = usable(self)
    if err then return nil, err end
    local statement = self.statements[text]
    if not statement then
      statement, err = prepare(self, text)
      if not statement then return nil, err end
    end
    local given = select("#", ...)
    if given ~= statement.parameters then
      error(("require param_count: %d get arg_num: %d"):format(statement.parameters, given), 2)
    end
    local result, more
    result, err, more = exchange(self, self.session:execute(statement.id, ...))
    -- A transaction that a text such as `start transaction` has opened is rolled back by `close` too.
    if self.session:in_transaction() then self.transaction = true end
    self.is_altered = not self.session:autocommits()
    return result, err, more
  end

  sql.methods(Connection, function(conn, text)
    return exchange(conn, conn.session:command(QUERY, text))
  end, function(conn)
    return exchange(conn, conn.session:command(PING))
  end)

  local _, new = sql.class{
    connect = connect,
    quit = function(conn)
      if not conn.broken and not conn.busy then conn.sock:write(conn.session:command(QUIT)) end
    end,
    begin = function(conn) return exchange(conn, conn.session:command(QUERY, "BEGIN")) end,
  }

  --- `open{ addr, user, password, database, charset, tls, timeout, connect_timeout, max_… }` → pool
  local function open(given)
    local options = sql.checked(given, DEFAULTS)
    options.collation = CHARSETS[options.charset]
    if not options.collation then
      error(("bad argument #1 to 'open' (charset: %q is unknown)"):format(options.charset), 2)
    end
    return new(options)
  end

  return { open = open }
end
