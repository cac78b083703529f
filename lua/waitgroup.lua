-- `sync.waitgroup`: waits for tasks.
return function()
  local task = require "silly.task"

  local Group = {}
  Group.__index = Group

  --- `fork(fn, ...)` → thread: an error in it is logged and counts as done.
  function Group:fork(fn, ...)
    if type(fn) ~= "function" then
      error("bad argument #1 to 'fork' (function expected, got " .. type(fn) .. ")", 2)
    end
    self.count = self.count + 1
    return task.fork(function(...)
      local ok, why = xpcall(fn, debug.traceback, ...)
      if not ok then task.error(why) end
      self.count = self.count - 1
      if self.count == 0 then
        local waiting = self.waiting
        self.waiting = {}
        for _, waiter in ipairs(waiting) do task.wakeup(waiter) end
      end
    end, ...)
  end

  --- `wait()`: until every forked task has ended.
  function Group:wait()
    if self.count > 0 then
      table.insert(self.waiting, task.running())
      task.wait()
    end
  end

  return {
    --- `new()` → group
    new = function() return setmetatable({ count = 0, waiting = {} }, Group) end,
  }
end
