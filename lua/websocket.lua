-- `net.websocket`: sockets, as scripts use them.
return function(raw)
  local Socket = { __name = "websocket" }
  Socket.__index = Socket

  -- The connection of a socket, as Silly's programs use it.
  local Conn = { __name = "websocket connection" }
  Conn.__index = Conn

  function Conn:isalive() return self.raw:isalive() end

  --- `close() → true | false, err`: as of a peer that goes away (1001).
  function Conn:close() return self.raw:close(1001) end

  --- `read([ms]) → data, type | nil, err, ""`; of a close the third value is its code.
  function Socket:read(ms)
    local data, kind, more = self.raw:take()
    if kind then return data, kind, more end
    return raw.read(self.raw, ms)
  end

  --- `write([data[, type = "binary"]]) → true | nil, err`: waits while much is unsent.
  function Socket:write(data, kind)
    if data == nil then data = "" end
    if type(data) ~= "string" then
      error("bad argument #1 to 'write' (string expected, got " .. type(data) .. ")", 2)
    end
    if kind == "close" then return self:close(1000, data) end
    local ok, why, full = self.raw:write(data, kind or "binary")
    if full then return raw.room(self.raw) end
    return ok, why
  end

  --- `close([code = 1000[, reason]]) → true | false, err`
  function Socket:close(code, reason) return self.raw:close(code, reason) end
  Socket.__close = Socket.close

  local websocket = {}

  local function wrap(socket, remoteaddr, stream)
    local conn = setmetatable({ raw = socket, remoteaddr = remoteaddr }, Conn)
    return setmetatable({ raw = socket, conn = conn, stream = stream }, Socket)
  end

  --- `upgrade(stream[, { max_message =, protocol = }]) → socket | nil, err`. A request
  --- without an upgrade gets 400, or 426 if it asks for another version.
  function websocket.upgrade(stream, options)
    if type(stream) ~= "table" or not stream.exchange then
      error("bad argument #1 to 'upgrade' (the stream of a handler expected)", 2)
    end
    local socket, why, status = raw.upgrade(stream.exchange, options)
    if socket then return wrap(socket, stream.remoteaddr, stream) end
    if status then
      stream:respond(status, {
        ["content-type"] = "text/plain",
        ["sec-websocket-version"] = "13",
        upgrade = status == 426 and "websocket" or nil,
      })
      stream:closewrite(why .. "\n")
    end
    return nil, why
  end

  --- `listen{ addr =, handler =, … } → listener | nil, err`: as `http.listen`, but all requests become
  --- sockets, which the handler gets, as in Silly's releases of 2024.
  function websocket.listen(conf)
    if type(conf) ~= "table" or type(conf.handler) ~= "function" then
      error("bad argument #1 to 'listen' (a table with a handler expected)", 2)
    end
    local options = {}
    for name, value in pairs(conf) do options[name] = value end
    function options.handler(stream)
      local socket = websocket.upgrade(stream)
      if socket then conf.handler(socket) end
    end
    return require "silly.net.http".listen(options)
  end

  --- `connect(url[, header[, { max_message = }]]) → socket | nil, err`; the scheme may be http or https.
  function websocket.connect(url, header, options)
    if type(url) ~= "string" then
      error("bad argument #1 to 'connect' (string expected, got " .. type(url) .. ")", 2)
    end
    local socket, remoteaddr = raw.connect((url:gsub("^http", "ws")), header, options)
    if not socket then return nil, remoteaddr end
    return wrap(socket, remoteaddr)
  end

  return websocket
end
