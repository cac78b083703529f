-- `store.redis`: commands of many coroutines over few connections, and subscriptions.
--
-- A connection replies in the order of its commands, so requests form a queue: commands are written at
-- once, and each reply belongs to the first request in the queue. After any fault the connection is
-- closed; the next command opens another.
return function(raw)
  local task = require "silly.task"
  local tcp = require "silly.net.tcp"
  local tls = require "silly.net.tls"
  local time = require "silly.time"
  local errno = require "silly.errno"

  local CHUNK_BYTES = 64 * 1024
  local DEFAULTS = { timeout = 5000, connect_timeout = 5000, pool = 1, waiting = 100000, protocol = 2 }

  --- Options are checked when a client is made, so that an error shows its position.
  local function checked(given)
    if type(given) ~= "table" then
      error("bad argument #1 to 'new' (table expected, got " .. type(given) .. ")", 3)
    end
    local options = {}
    local function take(name, kind, least)
      local value = given[name]
      if value == nil then value = DEFAULTS[name] end
      local good = value == nil or type(value) == kind or kind == "integer" and math.type(value) == kind
      if not good or least and value and value < least then
        error(("bad argument #1 to 'new' (%s: %s expected)"):format(name, kind), 4)
      end
      options[name] = value
    end
    take("addr", "string")
    if not options.addr then error("bad argument #1 to 'new' (addr is missing)", 3) end
    take("user", "string")
    take("auth", "string")
    take("db", "integer", 0)
    take("timeout", "integer", 0)
    take("connect_timeout", "integer", 1)
    take("pool", "integer", 1)
    take("waiting", "integer", 1)
    take("limit", "integer", 1)
    take("protocol", "integer", 2)
    take("on_push", "function")
    if options.timeout == 0 then options.timeout = nil end
    if given.tls then
      if given.tls ~= true and type(given.tls) ~= "table" then
        error("bad argument #1 to 'new' (tls: true or a table expected)", 3)
      end
      options.tls = {}
      for name, value in pairs(given.tls == true and {} or given.tls) do options.tls[name] = value end
      options.tls.timeout = options.connect_timeout
    end
    return options
  end

  --- Connects to the server; nil and the reason.
  local function connect(options)
    if not options.tls then return tcp.connect(options.addr, { timeout = options.connect_timeout }) end
    local conn, why, detail = tls.connect(options.addr, options.tls)
    return conn, detail and "redis: TLS failed: " .. detail or why
  end

  --- The first commands of a connection, and the number of their replies.
  local function greeting(options)
    local parts = {}
    local user = options.user or "default"
    if options.protocol >= 3 then
      parts[1] = options.auth and raw.encode("HELLO", 3, "AUTH", user, options.auth) or raw.encode("HELLO", 3)
    elseif options.auth then
      parts[1] = options.user and raw.encode("AUTH", user, options.auth) or raw.encode("AUTH", options.auth)
    end
    if options.db and options.db > 0 then parts[#parts + 1] = raw.encode("SELECT", options.db) end
    return table.concat(parts), #parts
  end

  --- Ends a request. Its task may have been woken for another reason and be about to check.
  local function settle(request, why)
    if request.done then return end
    request.done, request.why = true, why
    if task.status(request.task) == "WAIT" then task.wakeup(request.task) end
  end

  local Link = {}
  Link.__index = Link

  local function open_link(options)
    local link = setmetatable({ options = options, first = 1, last = 0, unsent = {}, looked = 1, heard = 0 }, Link)
    task.fork(Link.run, link)
    return link
  end

  function Link:waiting()
    return self.last - self.first + 1
  end

  --- Closes an unusable connection; every request that waits for it fails with the reason.
  function Link:fail(why)
    if self.over then return end
    self.over = why
    if self.conn then self.conn:close() end
    if self.timer then time.cancel(self.timer) end
    for at = self.first, self.last do
      settle(self[at], why)
      self[at] = nil
    end
  end

  --- Runs a connection, in a coroutine of its own.
  function Link:run()
    local options = self.options
    local conn, why = connect(options)
    if not conn then return self:fail(why) end
    if self.over then return conn:close() end
    self.conn = conn
    local hello, count = greeting(options)
    self.greetings = count
    conn:write(hello)
    if count == 0 then self:begin() end
    local replies = raw.reader(options.limit)
    while not self.over do
      local data
      data, why = conn:readall(CHUNK_BYTES)
      if not data then return self:fail(why) end
      self.heard = self.heard + 1
      replies:feed(data)
      local kind, value = replies:next()
      while kind ~= nil and not self.over do
        self:answered(kind, value)
        kind, value = replies:next()
      end
    end
  end

  --- The greeting is over: requests since then are sent.
  function Link:begin()
    self.greetings = nil
    local unsent = self.unsent
    self.unsent = nil
    -- The replies so far were not for them.
    for at = self.first, self.last do self[at].asked = self.heard end
    local ok, why = self.conn:write(unsent)
    if not ok then self:fail(why) end
  end

  function Link:answered(kind, value)
    if kind == "fault" then return self:fail(value) end
    if kind == "push" then
      if self.options.on_push then task.fork(self.options.on_push, value) end
      return
    end
    if self.greetings then
      if not kind then return self:fail(value) end
      self.greetings = self.greetings - 1
      if self.greetings == 0 then self:begin() end
      return
    end
    local request = self[self.first]
    if not request then return self:fail("redis: a reply that was not asked for") end
    local got = request.got
    request[2 * got + 1], request[2 * got + 2] = kind, value
    request.got = got + 1
    if request.got < request.count then return end
    self[self.first] = nil
    self.first = self.first + 1
    settle(request)
  end

  --- Sends commands and waits for `count` replies; returns the request, whose `why` is the error.
  function Link:submit(bytes, count)
    local now, timeout = time.monotonic(), self.options.timeout
    local request = { task = task.running(), count = count, got = 0, asked = self.heard }
    request.due = timeout and now + timeout
    self.last = self.last + 1
    self[self.last] = request
    if self.unsent then
      table.insert(self.unsent, bytes)
    else
      local ok, why = self.conn:write(bytes)
      if not ok then self:fail(why) end
    end
    self:watch()
    while not request.done do task.wait() end
    return request
  end

  --- One timer for the connection: requests come due in the order they were made.
  function Link:watch()
    if self.timer or self.over or not self.options.timeout then return end
    self.looked = math.max(self.looked, self.first)
    local request = self[self.looked]
    if not request then return end
    self.timer = time.after(math.max(request.due - time.monotonic(), 1), function()
      self.timer = nil
      self:expire()
    end)
  end

  --- A late reply is dropped. A connection without any reply since then is dead.
  function Link:expire()
    local now = time.monotonic()
    local at = math.max(self.looked, self.first)
    local dead = false
    while self[at] and self[at].due <= now do
      dead = dead or self.heard == self[at].asked
      settle(self[at], errno.TIMEDOUT)
      at = at + 1
    end
    self.looked = at
    if dead then return self:fail(errno.TIMEDOUT) end
    self:watch()
  end

  local Client = {}
  local hidden = setmetatable({}, { __mode = "k" })

  --- A free connection, a new one while there may be more, or the one with the least to do.
  local function choose(state)
    local links, free, best = state.links, nil, nil
    for at = 1, state.options.pool do
      local link = links[at]
      if not link or link.over then
        free = free or at
      elseif link:waiting() == 0 then
        return link
      elseif not best or link:waiting() < best:waiting() then
        best = link
      end
    end
    if free then
      links[free] = open_link(state.options)
      return links[free]
    end
    return best
  end

  local function submit(client, bytes, count)
    local state = hidden[client]
    if state.closed then return false, errno.CLOSED end
    local link = choose(state)
    if link:waiting() >= state.options.waiting then return false, "redis: too many commands wait" end
    local request = link:submit(bytes, count)
    if request.why then return false, request.why end
    return request
  end

  --- The bytes of a command, whose arguments may be in a table.
  local function encoded(name, first, ...)
    if type(first) == "table" then return raw.encode(name, table.unpack(first, 1, first.n or #first)) end
    if first == nil and select("#", ...) == 0 then return raw.encode(name) end
    return raw.encode(name, first, ...)
  end

  --- `call(name, ...)` → true, value | false, error of the server | false, reason, "lost" if there is
  --- no reply: then it is unknown whether the command was executed
  function Client.call(client, name, ...)
    local request, why = submit(client, encoded(name, ...), 1)
    if not request then return false, why, "lost" end
    return request[1], request[2]
  end

  --- `pipeline{ {name, ...}, ... }` → { ok1, value1, ok2, value2, ..., n = } | false, reason. With a
  --- table for the results as second argument → true, their number
  function Client.pipeline(client, commands, results)
    local parts = {}
    for at, command in ipairs(commands) do
      parts[at] = raw.encode(table.unpack(command, 1, command.n or #command))
    end
    local count = 2 * #parts
    local request, why = {}, nil
    if count > 0 then request, why = submit(client, table.concat(parts), #parts) end
    if not request then return false, why end
    if not results then return table.move(request, 1, count, 1, { n = count }) end
    table.move(request, 1, count, 1, results)
    return true, count
  end

  --- `close()`: requests that still wait fail with `errno.CLOSED`.
  function Client.close(client)
    local state = hidden[client]
    if state.closed then return end
    state.closed = true
    for at = 1, state.options.pool do
      if state.links[at] then state.links[at]:fail(errno.CLOSED) end
    end
  end

  function Client.select()
    error("redis: coroutines share the connection; the database is chosen by new{db = }", 2)
  end

  local Subscription = {}
  Subscription.__index = Subscription
  local VERBS = { "subscribe", "psubscribe" }

  local function add(set, names, present)
    for _, name in ipairs(names) do set[name] = present or nil end
  end

  --- Sends the subscriptions; returns the number of confirmations to expect.
  local function all(subscription)
    local parts, count = {}, 0
    for _, verb in ipairs(VERBS) do
      local names = {}
      for name in pairs(subscription[verb .. "d"]) do table.insert(names, name) end
      count = count + #names
      if #names > 0 then table.insert(parts, raw.encode(verb, table.unpack(names))) end
    end
    return table.concat(parts), count
  end

  local function drop(subscription)
    if subscription.conn then subscription.conn:close() end
    subscription.conn = nil
  end

  --- Returns the next reply, or nil and the reason. A time-out loses nothing.
  local function receive(subscription, ms)
    local due = ms and time.monotonic() + ms
    while true do
      local kind, value = subscription.replies:next()
      if kind == "fault" or kind == false then
        drop(subscription)
        return nil, value
      elseif kind ~= nil then
        return value
      end
      local left = due and math.max(due - time.monotonic(), 0)
      local data, why = subscription.conn:readall(CHUNK_BYTES, left)
      if not data then
        if why ~= errno.TIMEDOUT then drop(subscription) end
        return nil, why
      end
      subscription.replies:feed(data)
    end
  end

  --- The form of a message for scripts; nil if it is not a message.
  local function message(value)
    if type(value) ~= "table" then return nil end
    if value[1] == "message" then
      return { kind = "message", channel = value[2], payload = value[3] }
    elseif value[1] == "pmessage" then
      return { kind = "pmessage", pattern = value[2], channel = value[3], payload = value[4] }
    end
  end

  --- Connects and subscribes to everything; true, or nil and the reason.
  local function begin(subscription)
    local options = subscription.options
    local conn, why = connect(options)
    if not conn then return nil, why end
    if subscription.closed then
      conn:close()
      return nil, errno.CLOSED
    end
    subscription.conn, subscription.replies = conn, raw.reader(options.limit)
    local hello, greetings = greeting(options)
    local subscribe, confirmations = all(subscription)
    conn:write(hello .. subscribe)
    local left = greetings + confirmations
    while left > 0 do
      local value
      value, why = receive(subscription, options.timeout)
      if value == nil then
        drop(subscription)
        return nil, why
      end
      local early = message(value)
      if early then table.insert(subscription.early, early) else left = left - 1 end
    end
    return true
  end

  --- `read([ms])` → { kind, channel, payload[, pattern] } | nil, reason
  --- After a lost connection one read fails, and the next one connects and subscribes again.
  function Subscription:read(ms)
    if self.closed then return nil, errno.CLOSED end
    if not self.conn then
      local ok, why = begin(self)
      if not ok then return nil, why end
    end
    if self.early[1] then return table.remove(self.early, 1) end
    local due = ms and time.monotonic() + ms
    while true do
      local value, why = receive(self, due and math.max(due - time.monotonic(), 0))
      if value == nil then return nil, why end
      local found = message(value)
      if found then return found end
    end
  end

  for _, verb in ipairs(VERBS) do
    local kept = verb .. "d"
    local function change(name, present)
      Subscription[name] = function(self, ...)
        add(self[kept], { ... }, present)
        if not self.conn or select("#", ...) == 0 then return true end
        return self.conn:write(raw.encode(name, ...))
      end
    end
    change(verb, true)
    change(verb:gsub("subscribe", "unsubscribe"), false)

    --- `client:subscribe(channel, ...)` and `client:psubscribe(pattern, ...)` → subscription | nil, reason
    Client[verb] = function(client, ...)
      if select("#", ...) == 0 then error("bad argument #1 to '" .. verb .. "' (a name expected)", 2) end
      local subscription = { options = hidden[client].options, subscribed = {}, psubscribed = {}, early = {} }
      add(subscription[kept], { ... }, true)
      setmetatable(subscription, Subscription)
      local ok, why = begin(subscription)
      if not ok then return nil, why end
      return subscription
    end
  end

  function Subscription:close()
    self.closed = true
    drop(self)
  end

  Subscription.__close = Subscription.close

  --- Any other name is a command.
  local function command(_, name)
    if type(name) ~= "string" then return nil end
    return Client[name] or function(client, ...) return Client.call(client, name, ...) end
  end

  local meta = { __index = command, __close = Client.close, __gc = Client.close, __name = "redis" }

  --- `new{ addr, auth, user, db, tls, timeout, connect_timeout, pool, protocol, limit, waiting, on_push }`
  local function new(given)
    local client = {}
    hidden[client] = { options = checked(given), links = {} }
    return setmetatable(client, meta)
  end

  -- The module has the commands as functions of a client: `redis.get(db, "key")`.
  return setmetatable({ new = new }, { __index = command })
end
