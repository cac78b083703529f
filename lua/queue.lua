-- `adt.queue`: first in, first out.
return function()
  local Queue = {}
  Queue.__index = Queue

  --- `push(value)` → size
  function Queue:push(value)
    if value == nil then error("bad argument #1 to 'push' (nil cannot be queued)", 2) end
    self.last = self.last + 1
    self[self.last] = value
    return self.last - self.first + 1
  end

  --- `pop()` → value or nil
  function Queue:pop()
    if self.first > self.last then return nil end
    local value = self[self.first]
    self[self.first] = nil
    self.first = self.first + 1
    if self.first > self.last then self.first, self.last = 1, 0 end
    return value
  end

  function Queue:size()
    return self.last - self.first + 1
  end

  function Queue:clear()
    for at = self.first, self.last do self[at] = nil end
    self.first, self.last = 1, 0
  end

  return {
    --- `new()` → queue
    new = function() return setmetatable({ first = 1, last = 0 }, Queue) end,
  }
end
