-- `net.cluster`: calls between processes, in the wire format of Silly 0.7.1.
--
-- A packet is the length of its body (u32, little-endian) and the body. A request has a session below
-- 2^31 (u32), a command (u32), a trace id (u64) and data; a response has the session with its top bit
-- set, and data. The format has no errors: a request whose handler fails gets no response.
return function(_, check)
  local task = require "silly.task"
  local time = require "silly.time"
  local trace = require "silly.trace"
  local tcp = require "silly.net.tcp"
  local errno = require "silly.errno"
  local logger = require "silly.logger"
  local mutex = require "silly.sync.mutex"

  local RESPONSE_BIT = 0x80000000
  local REQUEST_HEAD, RESPONSE_HEAD = 16, 4
  local TOO_SMALL, TOO_LARGE = "packet size too small", "packet size exceeds hardlimit"
  -- Unsent bytes that a connection may have in addition to one packet of the largest size.
  local OUTPUT_BYTES = 64 * 1024 * 1024
  local DEFAULTS = {
    timeout = 5000, packettimeout = 60000, concurrency = 10000,
    hardlimit = 128 * 1024 * 1024, softlimit = 65535,
  }

  local cluster = {}
  local settings
  -- Peers of `connect`, by address.
  local peers = {}
  local connecting = mutex.new()
  local counts = { connections = 0, waiting = 0, running = 0, timeouts = 0, oversized = 0, malformed = 0, paused = 0 }

  local function served(name)
    if not settings then error(("'%s' before 'serve'"):format(name), 3) end
  end

  --- Calls a function of the program; its error is logged.
  local function guarded(what, fn, ...)
    local result = table.pack(xpcall(fn, debug.traceback, ...))
    if not result[1] then logger.error("[cluster]", what, "failed:", result[2]) end
    return table.unpack(result, 1, result.n)
  end

  local function settle(waiter, data, why)
    waiter.done, waiter.data, waiter.why = true, data, why
    if task.status(waiter.task) == "WAIT" then task.wakeup(waiter.task) end
  end

  -- A call that waits for its response; it is also over when its coroutine is closed.
  local Waiter = {}
  function Waiter.__close(waiter)
    time.cancel(waiter.timer)
    waiter.link.waiting[waiter.session] = nil
    counts.waiting = counts.waiting - 1
  end

  --- Wakes the reader that waits until fewer requests run.
  local function resume(link)
    local reader = link.paused
    link.paused = nil
    if reader then task.wakeup(reader) end
  end

  --- Ends a connection; calls that wait for it fail.
  local function lose(link, why, silent)
    if link.over then return end
    link.over = why
    counts.connections = counts.connections - 1
    link.conn:close()
    if link.peer.link == link then link.peer.link = nil end
    for _, waiter in pairs(link.waiting) do settle(waiter, nil, why) end
    resume(link)
    if settings.close and not silent then guarded("close", settings.close, link.peer, why) end
  end

  --- Returns the size of a packet, or nil and the reason why it is not sent.
  local function sized(head, data, command)
    local size = head + #data
    if size > settings.hardlimit then
      counts.oversized = counts.oversized + 1
      return nil, TOO_LARGE
    end
    if size > settings.softlimit then
      logger.warn("[cluster] command", command, "has", size, "bytes, more than softlimit", settings.softlimit)
    end
    return size
  end

  --- Handles a request; returns the step that failed, and the reason.
  local function respond(link, session, command, data)
    local object, why = settings.unmarshal("request", command, data)
    if not object then return "decoding", why end
    local id, text = settings.marshal("response", command, settings.call(link.peer, command, object))
    if not id then return "encoding", text end
    local size
    size, why = sized(RESPONSE_HEAD, text, command)
    if not size then return "sending", why end
    link.conn:write { string.pack("<I4I4", size, session | RESPONSE_BIT), text }
  end

  -- A request whose handler runs.
  local Request = {}
  function Request.__close(request)
    local link = request.link
    link.running, counts.running = link.running - 1, counts.running - 1
    resume(link)
  end

  local function run(request)
    local request <close> = request
    trace.attach(request.trace)
    local ok, step, why = guarded("call", respond, request.link, request.session, request.command, request.data)
    if ok and step then
      logger.error("[cluster]", step, "failed, no response to command", request.command, why)
    end
  end

  --- Begins a request in a coroutine of its own, or waits while too many run.
  local function begin(link, body)
    while link.running >= settings.concurrency and not link.over do
      counts.paused = counts.paused + 1
      link.paused = task.running()
      task.wait()
    end
    if link.over then return end
    local session, command, id = string.unpack("<I4I4i8", body)
    link.running, counts.running = link.running + 1, counts.running + 1
    local data = body:sub(REQUEST_HEAD + 1)
    task.fork(run, setmetatable({ link = link, session = session, command = command, trace = id, data = data }, Request))
  end

  --- Handles one packet; returns the reason if the connection cannot be used any more.
  local function receive_packet(link)
    local head, why = link.conn:read(4)
    if not head then return why end
    local size = string.unpack("<I4", head)
    if size > settings.hardlimit then
      counts.oversized = counts.oversized + 1
      return TOO_LARGE
    end
    local body
    if size >= RESPONSE_HEAD then body, why = link.conn:read(size, settings.packettimeout) end
    if why then return why end
    local session = body and string.unpack("<I4", body)
    if session and session & RESPONSE_BIT ~= 0 then
      -- A response that comes after its time-out has no waiter.
      local waiter = link.waiting[session & ~RESPONSE_BIT]
      if waiter and not waiter.done then settle(waiter, body:sub(RESPONSE_HEAD + 1)) end
    elseif size >= REQUEST_HEAD then
      begin(link, body)
    else
      counts.malformed = counts.malformed + 1
      return TOO_SMALL
    end
  end

  local function receive(link)
    local why
    repeat why = receive_packet(link) until why or link.over
    if link.over then return end
    if why ~= errno.EOF then logger.error("[cluster] connection to", link.conn.remoteaddr, "is closed:", why) end
    lose(link, why)
  end

  local function open(peer, conn)
    local link = { peer = peer, conn = conn, session = 0, waiting = {}, running = 0 }
    conn:outputlimit(settings.hardlimit + OUTPUT_BYTES)
    peer.link = link
    counts.connections = counts.connections + 1
    return link
  end

  --- The connection of a peer; opens one to an address if there is none.
  local function linked(peer)
    if peer.link then return peer.link end
    if not peer.addr then return nil, "peer closed" end
    local held <close> = connecting:lock(peer)
    if peer.link then return peer.link end
    local closes = peer.closes
    local conn, why = tcp.connect(peer.addr, { timeout = settings.timeout })
    if not conn then return nil, why end
    if peer.closes ~= closes then
      conn:close()
      return nil, errno.CLOSED
    end
    local link = open(peer, conn)
    task.fork(receive, link)
    return link
  end

  --- Sends a request; returns its connection and session.
  local function request(peer, command, object)
    local link, why = linked(peer)
    if not link then return nil, why end
    local number, data = settings.marshal("request", command, object)
    if not number then return nil, data end
    local size
    size, why = sized(REQUEST_HEAD, data, command)
    if not size then return nil, why end
    repeat link.session = link.session + 1 & ~RESPONSE_BIT until not link.waiting[link.session]
    local session = link.session
    local head = string.pack("<I4I4I4i8", size, session, number & 0xffffffff, trace.propagate())
    local ok
    ok, why = link.conn:write { head, data }
    if not ok then return nil, why end
    return link, session
  end

  local function expire(waiter)
    if waiter.done then return end
    counts.timeouts = counts.timeouts + 1
    settle(waiter, nil, "timeout")
  end

  --- `call(peer, command, object) → response | nil, err`: waits for the response.
  function cluster.call(peer, command, object)
    check("call", 1, peer, "table")
    served "call"
    local link, session = request(peer, command, object)
    if not link then return nil, session end
    local waiter <close> = setmetatable({ link = link, session = session, task = task.running() }, Waiter)
    link.waiting[session] = waiter
    counts.waiting = counts.waiting + 1
    waiter.timer = time.after(settings.timeout, expire, waiter)
    while not waiter.done do task.wait() end
    if not waiter.data then return nil, waiter.why end
    return settings.unmarshal("response", command, waiter.data)
  end

  --- `send(peer, command, object) → true | nil, err`: does not wait for a response.
  function cluster.send(peer, command, object)
    check("send", 1, peer, "table")
    served "send"
    local link, why = request(peer, command, object)
    if not link then return nil, why end
    return true
  end

  --- `connect(addr) → peer`: one per address. A connection that cannot be opened now, or is lost, is
  --- opened by the next call.
  function cluster.connect(addr)
    check("connect", 1, addr, "string")
    served "connect"
    local peer = peers[addr]
    if not peer then
      peer = { addr = addr, closes = 0 }
      peers[addr] = peer
    end
    linked(peer)
    return peer
  end

  --- `listen(addr[, backlog]) → listener | nil, err`
  function cluster.listen(addr, backlog)
    check("listen", 1, addr, "string")
    served "listen"
    local listener, why = tcp.listen(addr, function(conn, from)
      local peer = { remoteaddr = from }
      local link = open(peer, conn)
      if settings.accept and not guarded("accept", settings.accept, peer, from) then
        return lose(link, errno.CLOSED, true)
      end
      receive(link)
    end, backlog)
    if not listener then return nil, why end
    return { listener = listener, addr = listener.addr }
  end

  --- `close(peer | listener)`: calls that wait get `errno.CLOSED`; the callback `close` is not called.
  function cluster.close(object)
    check("close", 1, object, "table")
    if object.listener then return object.listener:close() end
    if object.addr then
      object.closes = object.closes + 1
      if peers[object.addr] == object then peers[object.addr] = nil end
    end
    if object.link then lose(object.link, errno.CLOSED, true) end
  end

  --- `stat() → counts`: open connections, calls and requests in flight, and rejected requests.
  function cluster.stat()
    local copy = {}
    for name, count in pairs(counts) do copy[name] = count end
    return copy
  end

  --- `serve{ marshal =, unmarshal =, call =, … }`: the settings of all peers; the last call holds.
  function cluster.serve(conf)
    check("serve", 1, conf, "table")
    local checked = {}
    for _, name in ipairs { "marshal", "unmarshal", "call", "accept", "close" } do
      local optional = (name == "accept" or name == "close") and conf[name] == nil
      if type(conf[name]) ~= "function" and not optional then
        error(("bad argument #1 to 'serve' (%s: function expected)"):format(name), 2)
      end
      checked[name] = conf[name]
    end
    for name, default in pairs(DEFAULTS) do
      local value = conf[name]
      if value == nil then value = default end
      if math.type(value) ~= "integer" or value < 1 or value > 0xffffffff then
        error(("bad argument #1 to 'serve' (%s: an integer from 1 to 2^32-1 expected)"):format(name), 2)
      end
      checked[name] = value
    end
    if conf.softlimit and checked.softlimit > checked.hardlimit then
      error("bad argument #1 to 'serve' (softlimit is larger than hardlimit)", 2)
    end
    settings = checked
  end

  return cluster
end
