-- `net.http`: what scripts see of server and client.
return function(raw)
  local errno = require "silly.errno"

  local function check(name, index, value, kind)
    if type(value) ~= kind then
      error(("bad argument #%d to '%s' (%s expected, got %s)"):format(index, name, kind, type(value)), 3)
    end
  end

  -- The stream of a handler. `exchange` is the request and the response behind it.
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
    if key == "trailer" then return stream.exchange:get("trailer") end
  end

  --- `read([n[, ms]])`: n bytes, fewer only at the end of the body; without n whatever comes.
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

  --- `closewrite([data[, trailer]])`: the response is whole.
  function Stream:closewrite(data, trailer)
    if data ~= nil then
      check("closewrite", 1, data, "string")
      local ok, why = self.exchange:last(data)
      if not ok then return ok, why end
    end
    return self.exchange:finish(trailer)
  end
  Stream.close = Stream.closewrite

  -- The stream of a client. `exchange` is the request and the answer behind it.
  local Request = { __name = "http request" }
  Request.__index = Request

  --- `waitresponse([ms])`: the head of the answer, in `status` and `header`.
  function Request:waitresponse(ms)
    if self.status then return true end
    local status, header = raw.answered(self.exchange, ms)
    if not status then return nil, header end
    self.status, self.header, self.version = status, header, "HTTP/1.1"
    return true
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

  --- `closewrite([data[, trailer]])`: the request is whole.
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
  Request.__close = Request.close

  local Client = { __name = "http client" }
  Client.__index = Client

  --- `request(method, url[, header]) → stream | nil, err`
  function Client:request(method, url, header)
    check("request", 1, method, "string")
    check("request", 2, url, "string")
    if header ~= nil then check("request", 3, header, "table") end
    local exchange, why = raw.open(self.raw, method, url, header)
    if not exchange then return nil, why end
    return setmetatable({ exchange = exchange }, Request)
  end

  local function fetch(client, method, url, header, body)
    local stream, why = client:request(method, url, header)
    if not stream then return nil, why end
    local ok
    ok, why = stream:closewrite(body or "")
    if not ok then return nil, why end
    local data
    data, why = stream:readall()
    if not data then
      stream:close()
      return nil, why
    end
    return { status = stream.status, header = stream.header, trailer = stream.trailer, body = data }
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

  --- `newclient{ max_idle_per_host =, idle_timeout =, read_timeout = } → client`
  function http.newclient(options)
    if options ~= nil then check("newclient", 1, options, "table") end
    return setmetatable({ raw = raw.client(options) }, Client)
  end

  local default
  for _, name in ipairs { "get", "post", "request" } do
    http[name] = function(...)
      default = default or http.newclient()
      return default[name](default, ...)
    end
  end

  --- `listen{ addr =, handler =, … } → listener | nil, err`
  function http.listen(conf)
    check("listen", 1, conf, "table")
    if type(conf.addr) ~= "string" then
      error("bad argument #1 to 'listen' (addr is no string)", 2)
    end
    local handler = conf.handler
    if type(handler) ~= "function" then
      error("bad argument #1 to 'listen' (handler is no function)", 2)
    end
    if conf.tls or conf.certs then
      return nil, "https comes in a later version: TLS is not built in yet"
    end
    return raw.listen(conf.addr, function(exchange)
      return handler(setmetatable({ exchange = exchange }, meta))
    end, conf)
  end

  http.EOF, http.TIMEDOUT, http.CLOSED = errno.EOF, errno.TIMEDOUT, errno.CLOSED
  return http
end
