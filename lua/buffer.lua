-- `adt.buffer`: bytes in, counted or delimited bytes out.
return function()
  local Buffer = {}
  Buffer.__index = Buffer

  -- Pieces `first` to `last`; `offset` bytes of the first are read, `bytes` are unread.
  local function whole(self)
    if self.first == self.last and self.offset == 0 then return self[self.first] end
    if self.offset > 0 then
      self[self.first] = self[self.first]:sub(self.offset + 1)
      self.offset = 0
    end
    local text = table.concat(self, "", self.first, self.last)
    for at = self.first, self.last do self[at] = nil end
    self.first, self.last, self[1] = 1, 1, text
    return text
  end

  --- `append(string)` → size
  function Buffer:append(data)
    if type(data) ~= "string" then
      error("bad argument #1 to 'append' (string expected, got " .. type(data) .. ")", 2)
    end
    if #data > 0 then
      self.last = self.last + 1
      self[self.last] = data
      self.bytes = self.bytes + #data
    end
    return self.bytes
  end

  local function take(self, count)
    local text = whole(self)
    local data = text:sub(1, count)
    self.bytes = self.bytes - count
    if self.bytes == 0 then
      self:clear()
    else
      self.offset = count
    end
    return data
  end

  --- `read(n | delimiter)` → string or nil, bytes left
  function Buffer:read(want)
    if math.type(want) == "integer" then
      if want <= 0 then return "", self.bytes end
      if want > self.bytes then return nil, self.bytes end
      return take(self, want), self.bytes
    end
    if type(want) ~= "string" or want == "" then
      error("bad argument #1 to 'read' (a count or a delimiter expected)", 2)
    end
    if self.bytes == 0 then return nil, 0 end
    local _, stop = whole(self):find(want, 1, true)
    if not stop then return nil, self.bytes end
    return take(self, stop), self.bytes
  end

  --- `readall()` → string
  function Buffer:readall()
    if self.bytes == 0 then return "" end
    return take(self, self.bytes)
  end

  function Buffer:size() return self.bytes end

  function Buffer:clear()
    for at = self.first, self.last do self[at] = nil end
    self.first, self.last, self.offset, self.bytes = 1, 0, 0, 0
  end

  --- `dump()` → string: what is unread, which stays.
  function Buffer:dump()
    if self.bytes == 0 then return "" end
    return whole(self)
  end

  return {
    --- `new()` → buffer
    new = function() return setmetatable({ first = 1, last = 0, offset = 0, bytes = 0 }, Buffer) end,
  }
end
