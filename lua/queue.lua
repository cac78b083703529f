-- `adt.queue`: first in, first out.
return function()
  local Queue = {}
  Queue.__index = Queue

  --- `push(value)` → size; nil counts as a value.
  function Queue:push(value)
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

  --- `new()` → queue
  function Queue.new()
    return setmetatable({ first = 1, last = 0 }, Queue)
  end

  return Queue
end
