-- `net`: sockets by number, with a table of callbacks; for programs that use Silly's lowest level.
--
-- Where Silly passes a pointer and a size, this passes the bytes as a string and their size:
-- `silly.tostring(ptr, size)` and `buffer.append(b, ptr, size)` take both. The callbacks of a socket
-- run one after the other, in its coroutine.
return function()
  local task = require "silly.task"
  local tcp = require "silly.net.tcp"
  local udp = require "silly.net.udp"
  local errno = require "silly.errno"

  local net = {}
  -- By number: { conn = | listener = | datagram =, event =, paused = }
  local sockets = {}
  local last = 0

  local function check(name, index, value, kind)
    if type(value) ~= kind then
      error(("bad argument #%d to '%s' (%s expected, got %s)"):format(index, name, kind, type(value)), 3)
    end
  end

  local function add(socket)
    last = last + 1
    sockets[last] = socket
    return last
  end

  --- An error of a callback is logged, and the socket continues.
  local function call(fn, ...)
    if not fn then return end
    local ok, why = xpcall(fn, debug.traceback, ...)
    if not ok then task.error(why) end
  end

  --- Waits while reading is disabled; false if the socket was closed.
  local function may_read(fd, socket)
    while socket.paused and sockets[fd] == socket do
      socket.waiter = task.running()
      task.wait()
      socket.waiter = nil
    end
    return sockets[fd] == socket
  end

  --- Passes what a socket receives to its callbacks, until it ends, which closes it, or is closed.
  local function receive(fd, socket, read)
    while may_read(fd, socket) do
      local data, from = read()
      if sockets[fd] ~= socket then return end
      if not data then
        call(socket.event.close, fd, from)
        return sockets[fd] == socket and net.close(fd)
      end
      -- Reading was disabled in the meantime: the data stays for later.
      if not may_read(fd, socket) then return end
      call(socket.event.data, fd, data, #data, from)
    end
  end

  local function start(conn, event)
    local socket = { conn = conn, event = event }
    local fd = add(socket)
    local function run()
      receive(fd, socket, function()
        local data, why = conn:readall()
        if data then return data end
        return nil, why
      end)
    end
    return fd, run
  end

  --- `tcplisten(addr, event[, backlog]) → fd | nil, err`: calls `event.accept(fd, listenid, addr)`,
  --- `event.data(fd, data, size)` and `event.close(fd, err)`.
  function net.tcplisten(addr, event, backlog)
    check("tcplisten", 1, addr, "string")
    check("tcplisten", 2, event, "table")
    local fd
    local listener, why = tcp.listen(addr, function(conn, from)
      local own, run = start(conn, event)
      call(event.accept, own, fd, from)
      run()
    end, backlog)
    if not listener then return nil, why end
    fd = add { listener = listener }
    return fd
  end

  --- `tcpconnect(addr, event[, bind[, timeout]]) → fd | nil, err`
  function net.tcpconnect(addr, event, bind, timeout)
    check("tcpconnect", 1, addr, "string")
    check("tcpconnect", 2, event, "table")
    local conn, why = tcp.connect(addr, { bind = bind, timeout = timeout })
    if not conn then return nil, why end
    local fd, run = start(conn, event)
    task.fork(run)
    return fd
  end

  local function datagrams(datagram, why, event)
    if not datagram then return nil, why end
    local socket = { datagram = datagram, event = event }
    local fd = add(socket)
    task.fork(function()
      receive(fd, socket, function() return datagram:recvfrom() end)
    end)
    return fd
  end

  --- `udpbind(addr, event) → fd | nil, err`: calls `event.data(fd, data, size, addr)`.
  function net.udpbind(addr, event)
    check("udpbind", 1, addr, "string")
    check("udpbind", 2, event, "table")
    local datagram, why = udp.bind(addr)
    return datagrams(datagram, why, event)
  end

  --- `udpconnect(addr, event[, bind]) → fd | nil, err`
  function net.udpconnect(addr, event, bind)
    check("udpconnect", 1, addr, "string")
    check("udpconnect", 2, event, "table")
    local datagram, why = udp.connect(addr, { bindaddr = bind })
    return datagrams(datagram, why, event)
  end

  --- The data of an argument with its size.
  local function sized(data, size)
    local shorter = type(data) == "string" and math.type(size) == "integer" and size < #data
    return shorter and data:sub(1, size) or data
  end

  --- `tcpsend(fd, data[, size]) → true | false, err`: a string or a list of strings.
  function net.tcpsend(fd, data, size)
    local socket = sockets[fd]
    if not (socket and socket.conn) then return false, errno.CLOSED end
    return socket.conn:write(sized(data, size))
  end

  --- `udpsend(fd, data[, size][, addr]) → true | false, err`
  function net.udpsend(fd, data, size, addr)
    local socket = sockets[fd]
    if not (socket and socket.datagram) then return false, errno.CLOSED end
    if type(size) == "string" then size, addr = nil, size end
    return socket.datagram:sendto(sized(data, size), addr)
  end

  --- `multipack(data, n) → ptr, size`: for `n` calls of `tcpmulticast`.
  function net.multipack(data)
    check("multipack", 1, data, "string")
    return data, #data
  end

  --- `tcpmulticast(fd, ptr, size) → true | false, err`
  net.tcpmulticast = net.tcpsend

  --- `readenable(fd, enabled)`: whether the socket's data is received.
  function net.readenable(fd, enabled)
    local socket = sockets[fd]
    if not socket then return end
    socket.paused = not enabled
    local waiter = socket.waiter
    if enabled and waiter and task.status(waiter) == "WAIT" then task.wakeup(waiter) end
  end

  --- `sendsize(fd) → bytes`: the number of unsent bytes.
  function net.sendsize(fd)
    local socket = sockets[fd]
    local object = socket and (socket.conn or socket.datagram)
    return object and object:unsentbytes() or 0
  end

  --- `localaddr(fd) → addr`: that of a listener or of a datagram socket; not in Silly.
  function net.localaddr(fd)
    local socket = sockets[fd]
    local object = socket and (socket.listener or socket.datagram)
    return object and object.addr
  end

  --- `describe(fd)` → { kind =, addr =, unsent =, reading = } | nil: that of the peer or its own; not
  --- in Silly.
  function net.describe(fd)
    local socket = sockets[fd]
    if not socket then return nil end
    local kind = socket.conn and "tcp" or socket.listener and "tcp listener" or "udp"
    local addr = socket.conn and socket.conn.remoteaddr or net.localaddr(fd)
    return { kind = kind, addr = addr, unsent = net.sendsize(fd), reading = not socket.paused }
  end

  --- `close(fd) → true | false, err`: no callback is called any more.
  function net.close(fd)
    local socket = sockets[fd]
    if not socket then return false, errno.CLOSED end
    sockets[fd] = nil
    local waiter = socket.waiter
    if waiter and task.status(waiter) == "WAIT" then task.wakeup(waiter) end
    return (socket.conn or socket.listener or socket.datagram):close()
  end

  --- `tostring(ptr, size) → data`
  function net.tostring(data, size) return sized(data, size) end

  return net
end
