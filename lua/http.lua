-- `net.http`: server and client, as scripts use them.
return function(raw, check)
  local errno = require "silly.errno"

  -- The connection of a stream, as Silly's programs use it: `remoteaddr`, `isalive()` and `close()`.
  local Conn = { __name = "http connection" }
  Conn.__index = Conn

  function Conn:isalive() return self.exchange:isalive() end

  --- `close() → true | false, err`: ends the exchange, complete or not, and with it the connection.
  function Conn:close() return self.exchange:close() end

  local function connection(exchange)
    return setmetatable({ exchange = exchange, remoteaddr = exchange:get("remoteaddr") }, Conn)
  end

  -- The stream of a handler. `exchange` is the request and its response.
  local Stream = {}
  local FIELDS = {
    method = true, path = true, target = true, query = true, header = true, version = true,
    remoteaddr = true, scheme = true,
  }
  local meta = { __name = "http stream" }
  function meta.__index(stream, key)
    local method = Stream[key]
    if method then return method end
    if FIELDS[key] then
      local value = stream.exchange:get(key)
      rawset(stream, key, value)
      return value
    end
    if key == "trailer" or key == "eof" then return stream.exchange:get(key) end
    if key == "conn" then
      local conn = connection(stream.exchange)
      rawset(stream, key, conn)
      return conn
    end
  end

  --- `read([n[, ms]])`: n bytes, fewer only at the end of the body; without n the next received bytes.
  function Stream:read(n, ms)
    local data, why = self.exchange:take(n)
    if data or why then return data, why end
    return raw.read(self.exchange, n, ms)
  end

  --- `readall([ms])`: the whole body.
  function Stream:readall(ms) return raw.readall(self.exchange, ms) end

  --- `respond(status[, header])`
  function Stream:respond(status, header)
    check("respond", 1, status, "number")
    return self.exchange:respond(status, header)
  end

  --- `write(data)`: waits while much is unsent.
  function Stream:write(data)
    check("write", 1, data, "string")
    local ok, why, full = self.exchange:write(data)
    if full then return raw.room(self.exchange, raw.unsent) end
    return ok, why
  end

  --- `flush()`: sends what was written so far.
  function Stream:flush()
    self.exchange:release()
    return raw.room(self.exchange, 0)
  end

  --- `closewrite([data[, trailer]])`: completes the response.
  function Stream:closewrite(data, trailer)
    if data ~= nil then
      check("closewrite", 1, data, "string")
      local ok, why = self.exchange:last(data)
      if not ok then return ok, why end
    end
    return self.exchange:finish(trailer)
  end
  Stream.close = Stream.closewrite

  -- The stream of a client. `exchange` is the request and its response.
  local Request = {}
  local request_meta = { __name = "http request" }
  function request_meta.__index(stream, key)
    local method = Request[key]
    if method then return method end
    if key == "eof" then return stream.exchange:get(key) end
    if key == "conn" then
      local conn = connection(stream.exchange)
      rawset(stream, key, conn)
      return conn
    end
  end

  --- `waitresponse([ms])`: receives the response head, into `status` and `header`.
  function Request:waitresponse(ms)
    if self.status then return true end
    local status, header = raw.answered(self.exchange, ms)
    if not status then return false, header end
    self.status, self.header, self.version = status, header, self.exchange:get("version")
    return true
  end

  --- `readheader([ms]) → status, header | nil, err`: the same, as in Silly's releases of 2024.
  function Request:readheader(ms)
    local ok, why = self:waitresponse(ms)
    if not ok then return nil, why end
    return self.status, self.header
  end

  function Request:read(n, ms)
    local ok, why = self:waitresponse(ms)
    if not ok then return nil, why end
    local data
    data, why = self.exchange:take(n)
    if not data and not why then data, why = raw.client_read(self.exchange, n, ms) end
    self.trailer = self.trailer or self.exchange:trailer()
    return data, why
  end

  function Request:readall(ms)
    local ok, why = self:waitresponse(ms)
    if not ok then return nil, why end
    local data
    data, why = raw.client_readall(self.exchange, ms)
    self.trailer = self.trailer or self.exchange:trailer()
    return data, why
  end

  function Request:write(data)
    check("write", 1, data, "string")
    local ok, why, full = self.exchange:write(data)
    if full then return raw.client_room(self.exchange, raw.unsent) end
    return ok, why
  end

  function Request:flush() return raw.client_room(self.exchange, 0) end

  --- `closewrite([data[, trailer]])`: completes the request.
  function Request:closewrite(data, trailer)
    if data ~= nil then check("closewrite", 1, data, "string") end
    if data and not trailer then return self.exchange:whole(data) end
    if data then
      local ok, why = self.exchange:write(data)
      if not ok then return ok, why end
    end
    return self.exchange:finish(trailer)
  end

  function Request:close() return self.exchange:close() end
  request_meta.__close = Request.close

  local Client = { __name = "http client" }
  Client.__index = Client

  --- `request(method, url[, header]) → stream | nil, err`
  function Client:request(method, url, header)
    check("request", 1, method, "string")
    check("request", 2, url, "string")
    if header ~= nil then check("request", 3, header, "table") end
    local exchange, why = raw.open(self.raw, method, url, header)
    if not exchange then return nil, why end
    return setmetatable({ exchange = exchange }, request_meta)
  end

  -- RFC 9110 15.4: these change the method, those do not.
  local CHANGING, KEEPING = { [301] = true, [302] = true, [303] = true }, { [307] = true, [308] = true }
  -- Fields that describe a body that is not sent again, and fields for one server only.
  local OF_BODY = {
    ["content-type"] = true, ["content-encoding"] = true, ["content-language"] = true,
    ["content-location"] = true, ["content-length"] = true, ["transfer-encoding"] = true,
  }
  local OF_ORIGIN = {
    authorization = true, cookie = true, ["proxy-authorization"] = true, host = true,
  }

  local function without(header, names)
    local kept = {}
    for name, value in pairs(header or {}) do
      if not names[name:lower()] then kept[name] = value end
    end
    return kept
  end

  -- A small body is drained, so that the connection is reused.
  local function forget(stream)
    local length = tonumber(stream.header["content-length"])
    if length and length <= 4096 then stream:readall() end
  end

  local function fetch(client, method, url, header, body)
    local left = client.redirects
    while true do
      -- Closed too when this coroutine is.
      local stream <close>, why = client:request(method, url, header)
      if not stream then return nil, why end
      local ok
      ok, why = stream:closewrite(body or "")
      if ok then ok, why = stream:waitresponse() end
      if not ok then return nil, why end
      local status, location = stream.status, stream.header.location
      if not ((CHANGING[status] or KEEPING[status]) and type(location) == "string" and client.redirects > 0) then
        local data
        data, why = stream:readall()
        if not data then return nil, why end
        return { status = status, header = stream.header, trailer = stream.trailer, body = data, url = url }
      end
      forget(stream)
      if left == 0 then return nil, "too many redirects" end
      left = left - 1
      local same
      url, same, why = raw.follow(url, location)
      if not url then return nil, why end
      if CHANGING[status] and method ~= "GET" then
        method, body, header = "GET", nil, without(header, OF_BODY)
      end
      if not same then header = without(header, OF_ORIGIN) end
    end
  end

  --- `get(url[, header]) → { status =, header =, body = } | nil, err`
  function Client:get(url, header)
    check("get", 1, url, "string")
    return fetch(self, "GET", url, header)
  end

  --- `post(url, header, body) → { status =, header =, body = } | nil, err`
  function Client:post(url, header, body)
    check("post", 1, url, "string")
    if body ~= nil then check("post", 3, body, "string") end
    return fetch(self, "POST", url, header, body)
  end

  local http = {}

  --- `newclient{ max_idle_per_host =, idle_timeout =, read_timeout =, redirects = } → client`
  function http.newclient(options)
    if options ~= nil then check("newclient", 1, options, "table") end
    local redirects = options and options.redirects or 0
    if math.type(redirects) ~= "integer" or redirects < 0 or redirects > raw.redirects then
      error(("bad argument #1 to 'newclient' (redirects: 0 to %d expected)"):format(raw.redirects), 2)
    end
    return setmetatable({ raw = raw.client(options), redirects = redirects }, Client)
  end

  local default
  for _, name in ipairs { "get", "post", "request" } do
    http[name] = function(...)
      default = default or http.newclient()
      return default[name](default, ...)
    end
  end

  -- Their names in Silly's releases of 2024.
  http.GET, http.POST = http.get, http.post

  --- `listen{ addr =, handler =, … } → listener | nil, err`
  function http.listen(conf)
    check("listen", 1, conf, "table")
    if type(conf.addr) ~= "string" then
      error("bad argument #1 to 'listen' (addr is not a string)", 2)
    end
    local handler = conf.handler
    if type(handler) ~= "function" then
      error("bad argument #1 to 'listen' (handler is not a function)", 2)
    end
    return raw.listen(conf.addr, function(exchange)
      return handler(setmetatable({ exchange = exchange }, meta))
    end, conf)
  end

  http.EOF, http.TIMEDOUT, http.CLOSED = errno.EOF, errno.TIMEDOUT, errno.CLOSED
  return http
end
