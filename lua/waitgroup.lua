-- `sync.waitgroup`: waits for tasks.
return function()
  local task = require "silly.task"

  local Group = {}
  Group.__index = Group

  -- A forked task is running until this is closed, however it ends.
  local Under = {}
  function Under.__close(under)
    local group = under.group
    group.count = group.count - 1
    if group.count > 0 then return end
    local waiting = group.waiting
    group.waiting = {}
    for _, place in ipairs(waiting) do
      place.over = true
      if task.status(place.task) == "WAIT" then task.wakeup(place.task) end
    end
  end

  --- `fork(fn, ...)` → thread: an error in it is logged and counts as done.
  function Group:fork(fn, ...)
    if type(fn) ~= "function" then
      error("bad argument #1 to 'fork' (function expected, got " .. type(fn) .. ")", 2)
    end
    self.count = self.count + 1
    return task.fork(function(...)
      local under <close> = setmetatable({ group = self }, Under)
      local ok, why = xpcall(fn, debug.traceback, ...)
      if not ok then task.error(why) end
    end, ...)
  end

  --- `wait()`: until every forked task has ended.
  function Group:wait()
    if self.count == 0 then return end
    local place = { task = task.running() }
    table.insert(self.waiting, place)
    while not place.over do task.wait() end
  end

  --- `new()` → group
  function Group.new()
    return setmetatable({ count = 0, waiting = {} }, Group)
  end

  return Group
end
