-- `test.network()`: host names of the network in memory, and relays, which disturb connections. Called
-- with host, reset and let_read.
return function(raw, check)
  local tcp, task, time = require "silly.net.tcp", require "silly.task", require "silly.time"
  local channel, waitgroup = require "silly.sync.channel", require "silly.sync.waitgroup"
  local errno = require "silly.errno"

  local Network, Relay = {}, {}
  Network.__index, Relay.__index = Network, Relay

  --- `network:host(name, address)`: what a host name resolves to.
  function Network:host(name, address)
    check("host", 1, name, "string")
    check("host", 2, address, "string")
    raw.host(name, address)
  end

  local function wait_while_paused(relay)
    while relay.paused do
      table.insert(relay.paused, task.running())
      task.wait()
    end
  end

  --- Writes in pieces, each of which is read before the next one.
  local function write(relay, target, data)
    local at = 1
    while at <= #data do
      local size = relay.piece and math.max(relay.piece, 1) or #data
      if relay.piece then raw.let_read() end
      wait_while_paused(relay)
      if not target:write(data:sub(at, at + size - 1)) then return false end
      at = at + size
    end
    return true
  end

  --- Passes what arrived on to `target`, each part when it is due, and then how the stream ended.
  local function deliver(relay, target, parts)
    while true do
      local part = parts:pop()
      local wait = part.due - time.monotonic()
      if wait > 0 then time.sleep(wait) end
      wait_while_paused(relay)
      if not part.data then
        if part.why == errno.EOF then target:closewrite() else raw.reset(target) end
        return
      end
      if not write(relay, target, part.data) then return end
    end
  end

  --- One direction of a connection, until it has ended.
  local function pass(relay, source, target)
    local parts = channel.new()
    task.fork(function()
      repeat
        local data, why = source:readall()
        parts:push { data = data, why = why, due = time.monotonic() + relay.delay }
      until not data
    end)
    deliver(relay, target, parts)
  end

  local function serve(relay, client)
    local server = tcp.connect(relay.to)
    if not server then return raw.reset(client) end
    local ends = { client = client, server = server }
    relay.open[ends] = true
    local both = waitgroup.new()
    both:fork(function() pass(relay, client, server) end)
    both:fork(function() pass(relay, server, client) end)
    both:wait()
    relay.open[ends] = nil
    client:close()
    server:close()
  end

  --- `network:relay(from, to)` → relay; or nil, err: listens on `from` and connects each connection with
  --- `to`. Its fields: `delay`, milliseconds until what is sent arrives; `piece`, bytes that are read at once.
  function Network:relay(from, to)
    check("relay", 1, from, "string")
    check("relay", 2, to, "string")
    local relay = setmetatable({ to = to, delay = 0, open = {} }, Relay)
    local listener, why = tcp.listen(from, function(client) serve(relay, client) end)
    if not listener then return nil, why end
    relay.listener, relay.addr = listener, listener.addr
    return relay
  end

  --- `relay:pause()`: nothing arrives until `relay:resume()`.
  function Relay:pause()
    self.paused = self.paused or {}
  end

  function Relay:resume()
    local waiting = self.paused or {}
    self.paused = nil
    for _, waits in ipairs(waiting) do task.wakeup(waits) end
  end

  --- `relay:half_close(side)`: the client or the server of each connection reads the end of the stream; what
  --- it writes still arrives.
  function Relay:half_close(side)
    if side ~= "client" and side ~= "server" then
      error("bad argument #1 to 'half_close' (client or server expected)", 2)
    end
    for ends in pairs(self.open) do ends[side]:closewrite() end
  end

  local function each_end(relay, act)
    for ends in pairs(relay.open) do
      act(ends.client)
      act(ends.server)
    end
  end

  --- `relay:disconnect()`: closes all connections, so that both sides read the end of the stream.
  function Relay:disconnect()
    each_end(self, tcp.close)
  end

  --- `relay:reset()`: resets all connections.
  function Relay:reset()
    each_end(self, raw.reset)
  end

  --- `relay:close()`: disconnects, and refuses further connections.
  function Relay:close()
    self.listener:close()
    self:disconnect()
  end

  --- `relay:connections()` → number of open ones.
  function Relay:connections()
    local count = 0
    for _ in pairs(self.open) do count = count + 1 end
    return count
  end

  return setmetatable({}, Network)
end
