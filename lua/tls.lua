-- `net.tls`: `listen`, `connect`, and the functions of `net.tcp`, which a connection with TLS has too.
return function(raw)
  local tcp = require "silly.net.tcp"
  local tls = {}
  for name, value in pairs(tcp) do tls[name] = value end

  --- `connect(address[, { hostname =, alpnprotos =, ca =, insecure =, cert =, key =, ctx =, bind =,
  --- timeout = }]) → conn | nil, err, detail`
  tls.connect = raw.connect

  --- `upgrade(conn[, { hostname =, ca =, … as of connect }]) → conn | nil, err, detail`: TLS on a
  --- connection in use, as its client; `accept(conn, { certs =, … as of listen })` as its server.
  --- Earlier writes are sent in the clear.
  for _, side in ipairs{ "upgrade", "accept" } do
    tls[side] = function(conn, options)
      local ok, err = tcp.flush(conn)
      if not ok then return nil, err end
      local detail
      ok, err, detail = raw[side](conn, options)
      if not ok then return nil, err, detail end
      return conn
    end
  end

  local SETTINGS = { "certs", "alpnprotos", "alpn", "ctx" }

  --- `listen{ addr =, accept =, certs =, alpnprotos =, ctx =, backlog =, handshake_timeout = } →
  --- listener | nil, err`
  function tls.listen(conf)
    if type(conf) ~= "table" then
      error("bad argument #1 to 'listen' (table expected, got " .. type(conf) .. ")", 2)
    end
    local accept = conf.accept or conf.callback
    if type(conf.addr) ~= "string" then error("bad argument #1 to 'listen' (addr is not a string)", 2) end
    if type(accept) ~= "function" then error("bad argument #1 to 'listen' (accept is not a function)", 2) end
    local listener, context = raw.listen(conf.addr, accept, conf)
    if not listener then return nil, context end
    local current = {}
    for _, name in ipairs(SETTINGS) do current[name] = conf[name] end

    --- `listener:reload([{ certs =, alpnprotos =, ctx = }]) → true | false, err`: for handshakes from
    --- now on. Settings that are not given stay as they were.
    function listener.reload(_, changed)
      local settings = {}
      for _, name in ipairs(SETTINGS) do
        settings[name] = current[name]
        if changed and changed[name] ~= nil then settings[name] = changed[name] end
      end
      if changed and changed.certs and changed.ctx == nil then settings.ctx = nil end
      local ok, why = context:replace(settings)
      if ok then current = settings end
      return ok, why
    end
    return listener
  end

  --- `reload(listener[, conf])` is `listener:reload(conf)`.
  function tls.reload(listener, conf) return listener:reload(conf) end

  return tls
end
