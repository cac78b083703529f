-- `sync.singleflight`: concurrent calls with one key share one execution.
return function()
  local task = require "silly.task"

  local Flight = {}
  Flight.__index = Flight

  --- `call(key, ...)`: what `fn(key, ...)` returns; its error is raised in every caller.
  function Flight:call(key, ...)
    local flying = self.flying
    local waiting = flying[key]
    local result
    if waiting then
      table.insert(waiting, task.running())
      result = task.wait()
    else
      waiting = {}
      flying[key] = waiting
      result = table.pack(pcall(self.fn, key, ...))
      flying[key] = nil
      for _, waiter in ipairs(waiting) do task.wakeup(waiter, result) end
    end
    if not result[1] then error(result[2], 0) end
    return table.unpack(result, 2, result.n)
  end

  return {
    --- `new(fn)` → flight
    new = function(fn)
      if type(fn) ~= "function" then
        error("bad argument #1 to 'new' (function expected, got " .. type(fn) .. ")", 2)
      end
      return setmetatable({ fn = fn, flying = {} }, Flight)
    end,
  }
end
