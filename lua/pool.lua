-- `pool`: resources that are expensive to open, by key, each lent to one coroutine at a time.
--
-- Each key has at most `max` open resources, including those being opened. Waiting tasks are served in
-- order. A resource is returned or dropped; if opening one fails, the next waiting task tries. If a coroutine
-- is closed halfway, like that of a disconnected client, its unfinished steps are undone.
return function()
  local task = require "silly.task"
  local time = require "silly.time"
  local errno = require "silly.errno"

  local DEFAULTS = { max = 10, keys = 1024, wait = 5000, idle = 60000 }
  local NO_KEY = {}

  local Pool = {}
  Pool.__index = Pool
  local Lease = {}
  Lease.__index = Lease

  local function checked(given)
    if type(given) ~= "table" then
      error("bad argument #1 to 'new' (table expected, got " .. type(given) .. ")", 3)
    end
    local options = {}
    for name, kind in pairs{ open = "function", close = "function", check = "function" } do
      options[name] = given[name]
      if options[name] ~= nil and type(options[name]) ~= kind then
        error(("bad argument #1 to 'new' (%s: %s expected)"):format(name, kind), 3)
      end
    end
    if not options.open then error("bad argument #1 to 'new' (open is missing)", 3) end
    for _, name in ipairs{ "max", "keys", "wait", "idle", "lifetime", "check_after" } do
      local value = given[name]
      if value == nil then value = DEFAULTS[name] end
      local least = (name == "max" or name == "keys") and 1 or 0
      if value ~= nil and (math.type(value) ~= "integer" or value < least) then
        error(("bad argument #1 to 'new' (%s: an integer from %d expected)"):format(name, least), 3)
      end
      options[name] = value
    end
    return options
  end

  --- Closes a resource that is not in use any more; errors are logged.
  local function discard(pool, entry)
    pool.counts.closed = pool.counts.closed + 1
    if not pool.options.close then return end
    local ok, why = pcall(pool.options.close, entry.resource)
    if not ok then task.error("pool: closing failed: " .. tostring(why)) end
  end

  local function wake(waiter)
    waiter.done = true
    if waiter.session then time.cancel(waiter.session) end
    if task.status(waiter.task) == "WAIT" then task.wakeup(waiter.task) end
  end

  --- A slot has become free: the first waiting task may open one, or the key is removed.
  local function leave(pool, shelf)
    shelf.open = shelf.open - 1
    local waiter = table.remove(shelf.waiting, 1)
    if waiter then
      shelf.open = shelf.open + 1
      wake(waiter)
    elseif shelf.open == 0 and pool.shelves[shelf.key] == shelf then
      pool.shelves[shelf.key] = nil
      pool.keys = pool.keys - 1
    end
  end

  local function lend(pool, entry)
    pool.lent[entry.resource] = entry
    return entry.resource
  end

  -- A step that is undone if its coroutine is closed before the step is complete.
  local Doing = {}
  function Doing.__close(doing)
    if not doing.settled then doing.undo() end
  end

  --- Opens a resource that is counted already.
  local function grow(pool, shelf)
    local key = shelf.key
    if key == NO_KEY then key = nil end
    local opening <close> = setmetatable({ undo = function() leave(pool, shelf) end }, Doing)
    local ok, resource, why = pcall(pool.options.open, key)
    opening.settled = true
    if not ok or resource == nil then
      leave(pool, shelf)
      if not ok then error(resource, 0) end
      return nil, why or "pool: nothing was opened"
    end
    if pool.lent[resource] then
      leave(pool, shelf)
      error("pool: 'open' returned what is lent already", 0)
    end
    pool.counts.opened = pool.counts.opened + 1
    local entry = { resource = resource, shelf = shelf, born = time.monotonic() }
    if pool.closed then
      discard(pool, entry)
      leave(pool, shelf)
      return nil, errno.CLOSED
    end
    return lend(pool, entry)
  end

  local function too_old(pool, entry, now)
    local lifetime = pool.options.lifetime
    return lifetime and now - entry.born >= lifetime
  end

  --- The idle resource that was used last, if it is still usable.
  local function reuse(pool, shelf)
    local options = pool.options
    while true do
      local entry = table.remove(shelf.idle)
      if not entry then return nil end
      local now = time.monotonic()
      local good = not too_old(pool, entry, now) and now - entry.since < options.idle
      if good and options.check and now - entry.since >= (options.check_after or 0) then
        local checking <close> = setmetatable({ undo = function()
          discard(pool, entry)
          leave(pool, shelf)
        end }, Doing)
        local ok, healthy = pcall(options.check, entry.resource)
        checking.settled = true
        good = ok and healthy
      end
      if good and not pool.closed then return entry end
      discard(pool, entry)
      leave(pool, shelf)
      if pool.closed then return nil end
    end
  end

  --- Closes resources that were idle for too long; a timer runs only while there are idle ones.
  local function sweep(pool)
    pool.timer = nil
    local now, soonest = time.monotonic(), nil
    for _, shelf in pairs(pool.shelves) do
      while shelf.idle[1] and now - shelf.idle[1].since >= pool.options.idle do
        table.insert(pool.old, table.remove(shelf.idle, 1))
      end
      local first = shelf.idle[1]
      if first then soonest = math.min(soonest or first.since, first.since) end
    end
    while pool.old[1] do
      local entry = table.remove(pool.old)
      discard(pool, entry)
      leave(pool, entry.shelf)
    end
    if soonest and not pool.timer and not pool.closed then
      local left = math.max(soonest + pool.options.idle - time.monotonic(), 1)
      pool.timer = time.after(left, function() sweep(pool) end)
    end
  end

  --- Makes space for another key by evicting an unused one.
  local function make_room(pool)
    for _, shelf in pairs(pool.shelves) do
      if shelf.open == #shelf.idle and shelf.open > 0 then
        local idle = shelf.idle
        shelf.idle = {}
        for _, entry in ipairs(idle) do
          discard(pool, entry)
          leave(pool, shelf)
        end
        return pool.keys < pool.options.keys
      end
    end
  end

  local function shelf_of(pool, key)
    if key == nil then key = NO_KEY end
    local shelf = pool.shelves[key]
    if shelf then return shelf end
    if pool.keys >= pool.options.keys and not make_room(pool) then return nil end
    shelf = { key = key, open = 0, idle = {}, waiting = {} }
    pool.shelves[key] = shelf
    pool.keys = pool.keys + 1
    return shelf
  end

  local function wait(pool, shelf, ms)
    local waiter = { task = task.running() }
    local function give_up()
      for at, other in ipairs(shelf.waiting) do
        if other == waiter then table.remove(shelf.waiting, at) break end
      end
    end
    local waiting <close> = setmetatable({ undo = function()
      if waiter.session then time.cancel(waiter.session) end
      give_up()
      -- What it was handed before it could run belongs to the next one.
      if waiter.entry then
        pool:give(lend(pool, waiter.entry))
      elseif waiter.done and not waiter.why then
        leave(pool, shelf)
      end
    end }, Doing)
    table.insert(shelf.waiting, waiter)
    waiter.session = time.after(ms, function()
      give_up()
      waiter.session, waiter.why = nil, errno.TIMEDOUT
      wake(waiter)
    end)
    while not waiter.done do task.wait() end
    waiting.settled = true
    if waiter.why then
      pool.counts.refused = pool.counts.refused + 1
      return nil, waiter.why
    end
    if waiter.entry then return lend(pool, waiter.entry) end
    return grow(pool, shelf)
  end

  --- `take([key[, ms]])` → resource | nil, reason
  function Pool:take(key, ms)
    if self.closed then return nil, errno.CLOSED end
    local shelf = shelf_of(self, key)
    if not shelf then return nil, "pool: too many keys" end
    if #shelf.waiting == 0 then
      local entry = reuse(self, shelf)
      if entry then return lend(self, entry) end
      if self.closed then return nil, errno.CLOSED end
      if shelf.open == 0 then shelf = shelf_of(self, key) or shelf end
      if shelf.open < self.options.max and #shelf.waiting == 0 then
        shelf.open = shelf.open + 1
        return grow(self, shelf)
      end
    end
    return wait(self, shelf, ms or self.options.wait)
  end

  local function returned(pool, resource, name)
    local entry = pool.lent[resource]
    if not entry then error(("bad argument #1 to '%s' (not lent by this pool)"):format(name), 3) end
    pool.lent[resource] = nil
    return entry
  end

  --- `give(resource)`: returns it to the pool.
  function Pool:give(resource)
    local entry = returned(self, resource, "give")
    local shelf, now = entry.shelf, time.monotonic()
    if self.closed or too_old(self, entry, now) then
      discard(self, entry)
      return leave(self, shelf)
    end
    local waiter = table.remove(shelf.waiting, 1)
    if waiter then
      waiter.entry = entry
      return wake(waiter)
    end
    entry.since = now
    table.insert(shelf.idle, entry)
    if not self.timer then sweep(self) end
  end

  --- `drop(resource)`: closes it.
  function Pool:drop(resource)
    local entry = returned(self, resource, "drop")
    discard(self, entry)
    leave(self, entry.shelf)
  end

  local function settle(pool, resource, ok, ...)
    if not pool.lent[resource] then
      if not ok then error((...), 0) end
      return ...
    end
    if ok then
      pool:give(resource)
      return ...
    end
    pool:drop(resource)
    error((...), 0)
  end

  --- `with(key, fn, ...)` → the results of `fn(resource, ...)` | nil, reason. After an error in `fn` the
  --- resource is dropped and the error raised again.
  function Pool:with(key, fn, ...)
    local resource, why = self:take(key)
    if resource == nil then return nil, why end
    local using <close> = setmetatable({ undo = function()
      if self.lent[resource] then self:drop(resource) end
    end }, Doing)
    local results = table.pack(pcall(fn, resource, ...))
    using.settled = true
    return settle(self, resource, table.unpack(results, 1, results.n))
  end

  --- `lease([key[, ms]])` → { resource = } | nil, reason: for `local held <close> = pool:lease(key)`.
  function Pool:lease(key, ms)
    local resource, why = self:take(key, ms)
    if resource == nil then return nil, why end
    return setmetatable({ pool = self, resource = resource }, Lease)
  end

  local function ended(lease, how)
    local resource = lease.resource
    lease.resource = nil
    if resource ~= nil and lease.pool.lent[resource] then lease.pool[how](lease.pool, resource) end
  end

  function Lease:give() ended(self, "give") end
  function Lease:drop() ended(self, "drop") end
  function Lease.__close(lease, why) ended(lease, why == nil and "give" or "drop") end

  --- `stat()` → { open, idle, waiting, keys, opened, closed, refused }
  function Pool:stat()
    local stat = { open = 0, idle = 0, waiting = 0, keys = self.keys }
    for _, shelf in pairs(self.shelves) do
      stat.open = stat.open + shelf.open
      stat.idle = stat.idle + #shelf.idle
      stat.waiting = stat.waiting + #shelf.waiting
    end
    for name, count in pairs(self.counts) do stat[name] = count end
    return stat
  end

  --- `close()`: idle resources are closed now, lent ones when they are returned; waiting tasks get an error.
  function Pool:close()
    if self.closed then return end
    self.closed = true
    if self.timer then time.cancel(self.timer) end
    local shelves = {}
    for _, shelf in pairs(self.shelves) do table.insert(shelves, shelf) end
    for _, shelf in ipairs(shelves) do
      local waiting, idle = shelf.waiting, shelf.idle
      shelf.waiting, shelf.idle = {}, {}
      for _, waiter in ipairs(waiting) do
        waiter.why = errno.CLOSED
        wake(waiter)
      end
      for _, entry in ipairs(idle) do
        discard(self, entry)
        leave(self, shelf)
      end
    end
  end

  Pool.__close = Pool.close

  return {
    --- `new{ open, close, check, max, wait, idle, lifetime, check_after, keys }` → pool
    new = function(given)
      local pool = { options = checked(given), shelves = {}, keys = 0, lent = {}, old = {} }
      pool.counts = { opened = 0, closed = 0, refused = 0 }
      return setmetatable(pool, Pool)
    end,
  }
end
