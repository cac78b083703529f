-- `net.grpc`: calls over the streams of `net.http`.
return function(raw, check)
  local silly, http, pb = require "silly", require "silly.net.http", require "silly.pb"
  local time, errno, logger = require "silly.time", require "silly.errno", require "silly.logger"
  local gzip = require "silly.compress.gzip"
  local code = require "silly.net.grpc.code"

  local PREFIX = 5
  local MESSAGE_BYTES = 4 * 1024 * 1024
  -- What is not limited by time otherwise: streams may pause.
  local NEVER_MS = 0x7fffffff
  local TYPE = "application/grpc"

  local function pack(kind, message)
    return string.pack(">Bs4", 0, pb.encode(kind, message))
  end

  --- The message in a piece of a stream: table | nil, err, code.
  local function decoded(stream, kind, flags, data, most)
    if flags ~= 0 then
      if stream.header["grpc-encoding"] ~= "gzip" then
        return nil, "grpc: the compression of the message is not supported", code.Unimplemented
      end
      local plain = gzip.decompress(data, most)
      if not plain then return nil, "grpc: the compressed message is damaged or too large", code.Internal end
      data = plain
    end
    local ok, message = pcall(pb.decode, kind, data)
    if not ok then return nil, "grpc: malformed message: " .. tostring(message), code.Internal end
    return message
  end

  --- Reads one message of a stream: table | nil, err, code; nothing at its end. After a time-out the
  --- next read continues. `held` has what was read of it.
  local function receive(stream, held, kind, most, ms)
    if not held.size then
      local head, err = stream:read(PREFIX, ms)
      if not head then
        if err == errno.EOF and stream.eof then return nil end
        return nil, err
      end
      if #head < PREFIX then return nil, "grpc: incomplete message", code.Internal end
      held.flags, held.size = string.unpack(">BI4", head)
      if held.size > most then
        local err = ("grpc: received message larger than max (%d vs. %d)"):format(held.size, most)
        return nil, err, code.ResourceExhausted
      end
    end
    local data = ""
    if held.size > 0 then
      local err
      data, err = stream:read(held.size, ms)
      if not data then
        if err == errno.EOF then return nil, "grpc: incomplete message", code.Internal end
        return nil, err
      end
      if #data < held.size then return nil, "grpc: incomplete message", code.Internal end
    end
    held.size = nil
    return decoded(stream, kind, held.flags, data, most)
  end

  local function single(value)
    if type(value) == "table" then return value[1] end
    return value
  end

  -- The client.

  --- The status of a response that has ended, or of what it failed with.
  local function status_of(stream, err, cause)
    if cause then return cause, err end
    local trailer = stream.trailer or {}
    local status = single(trailer["grpc-status"])
    if not status and stream.header then
      trailer = stream.header
      status = single(trailer["grpc-status"])
    end
    if status then
      local number = math.tointeger(tonumber(status)) or code.Unknown
      local message = single(trailer["grpc-message"])
      return number, message and raw.unescape(message) or raw.names[number] or "Unknown"
    end
    if stream.status and stream.status ~= 200 then
      return raw.of_http(stream.status), "HTTP status " .. stream.status
    end
    if not stream.status then return code.Unavailable, err or "no response" end
    return code.Unknown, err or "no status in trailer"
  end

  local function failure(number, message)
    return nil, ("code = %s desc = %s"):format(raw.names[number] or "Code(" .. number .. ")", message), number
  end

  local Conn = { __name = "grpc client" }
  Conn.__index = Conn

  --- An open stream of the next target: stream | nil, err.
  local function open(conn, path, timeout, metadata)
    if conn.closed then return nil, "closed" end
    local target = conn.targets[conn.robin]
    conn.robin = conn.robin % #conn.targets + 1
    local header = { te = "trailers", ["content-type"] = TYPE, ["accept-encoding"] = "identity" }
    header["grpc-accept-encoding"] = "identity, gzip"
    header["user-agent"] = "grpc-lua-tidegate/" .. silly.tidegate
    if timeout then header["grpc-timeout"] = raw.timeout(timeout) end
    for name, value in pairs(metadata or {}) do header[name] = value end
    local stream, err = conn.client:request("POST", target .. path, header)
    if not stream then return nil, err end
    if stream.exchange:get("version") ~= "HTTP/2" then
      stream:close()
      return nil, "grpc: the server does not speak HTTP/2"
    end
    conn.streams[stream] = true
    return stream
  end

  --- As `open`, until the deadline: the stream is closed then.
  local function open_until(conn, path, timeout, metadata)
    if not timeout then return open(conn, path, nil, metadata) end
    local due = time.monotonic() + timeout
    local stream, err = time.timeout(timeout, open, conn, path, timeout, metadata)
    if not stream then return nil, err == time.TIMEDOUT and "grpc: deadline exceeded" or err end
    local limit = { expired = false }
    limit.timer = time.after(math.max(due - time.monotonic(), 0), function()
      limit.expired = true
      stream:close()
    end)
    return stream, nil, limit
  end

  local function failed_to_open(err)
    return nil, err, err == "grpc: deadline exceeded" and code.DeadlineExceeded or code.Unavailable
  end

  local function stop(limit)
    if limit then time.cancel(limit.timer) end
  end

  --- The end of a call: its status and message. The rest of the response is read for its trailers.
  local function ended(stream, limit, err, cause)
    if not cause then stream:readall() end
    stop(limit)
    if limit and limit.expired then return code.DeadlineExceeded, "deadline exceeded" end
    return status_of(stream, err, cause)
  end

  local function unary(method, path)
    return function(service, request, timeout, metadata)
      local conn = service.conn
      local data = pack(method.input_type, request)
      local stream <close>, err, limit = open_until(conn, path, timeout, metadata)
      if not stream then return failed_to_open(err) end
      stream:closewrite(data)
      local message, cause
      message, err, cause = receive(stream, {}, method.output_type, conn.max_message)
      local number, text = ended(stream, limit, err, cause)
      if number == code.DeadlineExceeded then return nil, "grpc: deadline exceeded", number end
      if number ~= code.OK then return failure(number, text) end
      if not message then return failure(code.Internal, err or "no message in the response") end
      return message
    end
  end

  -- A call with a stream in one direction or in both.
  local Call = { __name = "grpc call" }
  Call.__index = Call

  --- What a read returns after the end of a call.
  local function result_of(call)
    if call.status == code.OK then return nil end
    return nil, call.message
  end

  --- `read([ms]) → message | nil, err`: nil at the end, with `status` and `message` of the call.
  function Call:read(ms)
    if self.status then return result_of(self) end
    local stream = self.h2stream
    local message, err, cause = receive(stream, self.held, self.output, self.most, ms)
    if message and not self.is_single then return message end
    if err == errno.TIMEDOUT and not (self.limit and self.limit.expired) then return nil, err end
    self.status, self.message = ended(stream, self.limit, err, cause)
    if cause then stream:close() end
    if message and self.status == code.OK then return message end
    return result_of(self)
  end
  Call.readfinal = Call.read

  --- `write(message) → true | false, err`: waits while much is unsent.
  function Call:write(message) return self.h2stream:write(pack(self.input, message)) end

  --- `closewrite([message]) → true | false, err`: ends the requests.
  function Call:closewrite(message)
    return self.h2stream:closewrite(message and pack(self.input, message))
  end

  --- Cancels the call, unless it has ended.
  function Call:close()
    stop(self.limit)
    self.h2stream:close()
  end
  Call.__close = Call.close

  local function streaming(method, path)
    local is_single = not method.server_streaming
    return function(service, request, timeout, metadata)
      if method.client_streaming and type(request) == "number" then
        request, timeout, metadata = nil, request, timeout
      end
      local data = request and pack(method.input_type, request)
      local stream, err, limit = open_until(service.conn, path, timeout, metadata)
      if not stream then return failed_to_open(err) end
      if data and not method.client_streaming then
        stream:closewrite(data)
      else
        -- The head is sent before the first message.
        stream:write(data or "")
      end
      return setmetatable({
        h2stream = stream, limit = limit, held = {}, most = service.conn.max_message,
        input = method.input_type, output = method.output_type, is_single = is_single,
      }, Call)
    end
  end

  function Conn:close()
    if self.closed then return end
    self.closed = true
    for stream in pairs(self.streams) do stream:close() end
  end
  Conn.__close = Conn.close

  local function target_of(text, scheme)
    if type(text) ~= "string" then return nil, "invalid target: " .. tostring(text) end
    local kind, rest = text:match "^(%w+):///?(.*)$"
    if kind and kind ~= "dns" and kind ~= "passthrough" then
      return nil, ("unsupported scheme: %s (dns or passthrough expected)"):format(kind)
    end
    rest = rest or text
    if not rest:match "^%[[%x:.]+%]:%d+$" and not rest:match "^[^:/%s]+:%d+$" then
      return nil, "invalid target: " .. text
    end
    return scheme .. "://" .. rest
  end

  local grpc = {}

  --- `newclient{ targets = { "host:port", … }, tls =, … } → conn | nil, err`
  function grpc.newclient(options)
    check("newclient", 1, options, "table")
    local given = options.targets or options.endpoints or { options.target }
    if type(given) ~= "table" or #given == 0 then return nil, "empty targets" end
    local scheme, targets = options.tls and "https" or "http", {}
    for index, text in ipairs(given) do
      local target, err = target_of(text, scheme)
      if not target then return nil, err end
      targets[index] = target
    end
    local settings = {}
    for name, value in pairs(type(options.tls) == "table" and options.tls or options) do
      if name == "ca" or name == "insecure" or name == "cert" or name == "key" or name == "ctx" then
        settings[name] = value
      end
    end
    settings.alpnprotos, settings.read_timeout = { "h2" }, NEVER_MS
    return setmetatable({
      client = http.newclient(settings), targets = targets, robin = 1, closed = false,
      max_message = options.max_message or MESSAGE_BYTES,
      streams = setmetatable({}, { __mode = "k" }),
    }, Conn)
  end

  --- `newservice(conn, proto, name) → service | nil, err`: has a method for each of the service
  function grpc.newservice(conn, proto, name)
    check("newservice", 2, proto, "table")
    local found
    for _, service in ipairs(proto.service or {}) do
      if service.name == name then found = service end
    end
    if not found then return nil, "service not found" end
    local package = proto.package and proto.package ~= "" and proto.package .. "." or ""
    local service = { conn = conn }
    for _, method in ipairs(found.method or {}) do
      local path = ("/%s%s/%s"):format(package, name, method.name)
      local call = (method.client_streaming or method.server_streaming) and streaming or unary
      service[method.name] = call(method, path)
    end
    return service
  end

  -- The server.

  --- The trailers of a status; an error of the handler is `{ code =, message = }` or a text.
  local function trailer_of(err)
    if err == nil then return { ["grpc-status"] = code.OK } end
    local number, message = code.Unknown, err
    if type(err) == "table" then number, message = err.code or code.Unknown, err.message end
    local trailer = { ["grpc-status"] = number }
    if message ~= nil then trailer["grpc-message"] = raw.escape(tostring(message)) end
    return trailer
  end

  --- A response that is only a status.
  local function refuse(stream, number, message)
    stream:respond(200, {
      ["content-type"] = TYPE, ["grpc-status"] = number, ["grpc-message"] = raw.escape(message),
    })
    stream:closewrite()
  end

  -- What a handler of a stream has.
  local Served = { __name = "grpc stream" }
  Served.__index = Served

  --- `read([ms]) → message | nil, err`: nil at the end of the requests
  function Served:read(ms)
    local message, err, cause = receive(self.h2stream, self.held, self.input, self.most, ms)
    if message or err == errno.TIMEDOUT then return message, err end
    self.status = cause or (err and code.Internal or code.OK)
    self.message = err
    return nil, err
  end

  --- `write(message) → true | false, err`: waits while much is unsent.
  function Served:write(message) return self.h2stream:write(pack(self.output, message)) end

  --- True until the client has cancelled the call, or its deadline is over, which the serving loop
  --- watches.
  function Served:isalive() return self.h2stream.conn:isalive() end

  --- Calls the handler; response | nil, and what it failed with.
  local function run(handler, served)
    local request
    if not handler.client_streaming then
      local err, cause
      request, err, cause = receive(served.h2stream, served.held, handler.input, served.most)
      if not request then
        return nil, { code = cause or code.Internal, message = err or "no message in the request" }
      end
    end
    local ok, response, err
    if handler.client_streaming then
      ok, response, err = silly.pcall(handler.fn, served)
    else
      ok, response, err = silly.pcall(handler.fn, request, served)
    end
    if not ok then
      -- The client gets no text of our code.
      logger.error("[grpc]", served.path, response)
      return nil, { code = code.Internal, message = "the handler failed" }
    end
    if handler.client_streaming and handler.server_streaming then return nil, response end
    if err == nil and response == nil and not handler.server_streaming then
      return nil, { code = code.Internal, message = "the handler returned no message" }
    end
    return response, err
  end

  local function serve(handlers, most, stream)
    -- A media type has no case (RFC 9110 8.3.1).
    local content = (single(stream.header["content-type"]) or ""):lower()
    if stream.version ~= "HTTP/2" then return stream:respond(505) end
    if stream.method ~= "POST" then return stream:respond(405, { allow = "POST" }) end
    if content ~= TYPE and not content:match "^application/grpc[+;]" then return stream:respond(415) end
    local handler = handlers[stream.path]
    if not handler then return refuse(stream, code.Unimplemented, "grpc: method not found") end
    local served = setmetatable({
      h2stream = stream, held = {}, most = most, path = stream.path, header = stream.header,
      remoteaddr = stream.remoteaddr, input = handler.input, output = handler.output,
    }, Served)
    stream:respond(200, { ["content-type"] = TYPE, ["grpc-accept-encoding"] = "identity, gzip" })
    -- A client of a stream waits for the head before it sends.
    if handler.client_streaming or handler.server_streaming then stream:flush() end
    local response, err = run(handler, served)
    if err == nil and response ~= nil then
      local ok, data = pcall(pack, handler.output, response)
      if ok then
        stream:write(data)
      else
        logger.error("[grpc]", served.path, data)
        err = { code = code.Internal, message = "the handler's message cannot be encoded" }
      end
    end
    stream:closewrite(nil, trailer_of(err))
  end

  --- `listen{ addr =, registrar =, … } → listener | nil, err`
  function grpc.listen(conf)
    check("listen", 1, conf, "table")
    local handlers = type(conf.registrar) == "table" and conf.registrar.handlers
    if type(handlers) ~= "table" then
      error("bad argument #1 to 'listen' (registrar is not a registrar)", 2)
    end
    local most = conf.max_message or MESSAGE_BYTES
    local settings = {}
    for name, value in pairs(conf) do settings[name] = value end
    settings.alpnprotos = conf.alpnprotos or { "h2" }
    -- Each message has a limit, a stream of them has none.
    settings.max_body = conf.max_body or math.maxinteger
    settings.body_timeout = conf.body_timeout or NEVER_MS
    function settings.handler(stream) return serve(handlers, most, stream) end
    return http.listen(settings)
  end

  return grpc
end
