-- `adt.list`: a list of unique values, in order; each is found and removed at once.
return function()
  local List = {}
  List.__index = List

  local function check(self, value, name)
    if value == nil then error("bad argument #1 to '" .. name .. "' (nil cannot be kept)", 3) end
    if self.known[value] then error("bad argument #1 to '" .. name .. "' (already in the list)", 3) end
    self.known[value] = true
    self.count = self.count + 1
  end

  function List:pushback(value)
    check(self, value, "pushback")
    local last = self.last
    if last == nil then self.first = value else self.after[last], self.before[value] = value, last end
    self.last = value
  end

  function List:pushfront(value)
    check(self, value, "pushfront")
    local first = self.first
    if first == nil then self.last = value else self.before[first], self.after[value] = value, first end
    self.first = value
  end

  --- `remove(value)` → value | nil, "removed" if it is not in the list
  function List:remove(value)
    if value == nil or not self.known[value] then return nil, "removed" end
    local before, after = self.before[value], self.after[value]
    if before == nil then self.first = after else self.after[before] = after end
    if after == nil then self.last = before else self.before[after] = before end
    self.before[value], self.after[value], self.known[value] = nil, nil, nil
    self.count = self.count - 1
    return value
  end

  function List:popback() return (self:remove(self.last)) end
  function List:popfront() return (self:remove(self.first)) end
  function List:front() return self.first end
  function List:back() return self.last end
  function List:size() return self.count end

  --- `for value in list:values() do`, front to back. The loop may remove the value it has.
  function List:values()
    local following = self.first
    return function()
      local value = following
      if value == nil or not self.known[value] then return nil end
      following = self.after[value]
      return value
    end
  end

  function List:clear()
    self.first, self.last, self.count = nil, nil, 0
    self.known, self.before, self.after = {}, {}, {}
  end

  --- `new()` → list
  function List.new()
    local list = setmetatable({}, List)
    list:clear()
    return list
  end

  return List
end
