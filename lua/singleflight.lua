-- `sync.singleflight`: concurrent calls with one key share one execution.
--
-- The first caller leads. If the leader is closed before its end, like the handler of a disconnected
-- client, one of the waiting callers leads in its place.
return function()
  local task = require "silly.task"

  local Group = {}
  Group.__index = Group

  local Flight = {}
  function Flight.__close(flight)
    flight.over = true
    flight.flying[flight.key] = nil
    for _, waiter in ipairs(flight.waiting) do
      if task.status(waiter) == "WAIT" then task.wakeup(waiter) end
    end
  end

  local function lead(group, key, ...)
    local flight <close> = setmetatable({ flying = group.flying, key = key, waiting = {} }, Flight)
    group.flying[key] = flight
    flight.result = table.pack(pcall(group.fn, key, ...))
    return flight.result
  end

  --- `call(key, ...)`: what `fn(key, ...)` returns; its error is raised in every caller.
  function Group:call(key, ...)
    local result
    while not result do
      local flight = self.flying[key]
      if flight then
        table.insert(flight.waiting, task.running())
        while not flight.over do task.wait() end
        result = flight.result
      else
        result = lead(self, key, ...)
      end
    end
    if not result[1] then error(result[2], 0) end
    return table.unpack(result, 2, result.n)
  end

  --- `new(fn)` → flight
  function Group.new(fn)
    if type(fn) ~= "function" then
      error("bad argument #1 to 'new' (function expected, got " .. type(fn) .. ")", 2)
    end
    return setmetatable({ fn = fn, flying = {} }, Group)
  end

  return Group
end
