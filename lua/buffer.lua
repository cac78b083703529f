-- `adt.buffer`: bytes in, counted or delimited bytes out.
--
-- Pieces stay as they were appended, at `first` to `last`; `offset` bytes of the first are read, `bytes` are
-- unread. A byte is copied once, when it is read, and searched once for the delimiter of a read
-- that finds nothing: such a read stores where the next one continues.
return function()
  local find_text, cut_text, math_type = string.find, string.sub, math.type

  local Buffer = {}
  Buffer.__index = Buffer

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

  -- Removes `count` bytes, which are there.
  local function take(self, count)
    local first, offset = self.first, self.offset
    local piece = self[first]
    self.bytes = self.bytes - count
    -- The searched bytes count from the new start; the end of removed pieces is not stored.
    self.scanned = self.scanned - count
    if self.scanned < #self.tail then self.wanted = nil end
    if offset + count < #piece then
      self.offset = offset + count
      return piece:sub(offset + 1, offset + count)
    end
    if offset > 0 then self[first] = piece:sub(offset + 1) end
    local at, length = first, #self[first]
    while length < count do
      at = at + 1
      length = length + #self[at]
    end
    local last, over = self[at], length - count
    if over > 0 then self[at] = last:sub(1, #last - over) end
    local data = at == first and self[first] or table.concat(self, "", first, at)
    for gone = first, at do self[gone] = nil end
    if over > 0 then
      self[at], self.first, self.offset = last, at, #last - over
    else
      self.first, self.offset = at + 1, 0
    end
    if self.bytes == 0 then self:clear() end
    return data
  end

  -- The number of bytes up to and with the first `want`; nil if there is none.
  local function find(self, want)
    local overlap = #want - 1
    if self.wanted ~= want then
      self.wanted, self.next, self.scanned, self.tail = want, self.first, 0, ""
    end
    for at = self.next, self.last do
      local piece, from = self[at], at == self.first and self.offset or 0
      local scanned, tail = self.scanned, self.tail
      -- It may begin in the pieces before.
      if #tail > 0 then
        local _, stop = (tail .. piece:sub(1, overlap)):find(want, 1, true)
        if stop then return scanned - #tail + stop end
      end
      local _, stop = piece:find(want, from + 1, true)
      if stop then return scanned + stop - from end
      self.next, self.scanned = at + 1, scanned + #piece - from
      if overlap > 0 then
        local ending = piece:sub(math.max(from + 1, #piece - overlap + 1))
        self.tail = #ending < overlap and (tail .. ending):sub(-overlap) or ending
      end
    end
  end

  --- `read(n | delimiter)` → string or nil, bytes left
  function Buffer:read(want)
    -- The delimiter of the last read needs no check.
    if want ~= self.delimiter then
      if math_type(want) == "integer" then
        if want <= 0 then return "", self.bytes end
        if want > self.bytes then return nil, self.bytes end
        return take(self, want), self.bytes
      end
      if type(want) ~= "string" or want == "" then
        error("bad argument #1 to 'read' (a count or a delimiter expected)", 2)
      end
      self.delimiter = want
    end
    -- Most lines end within the first piece. If `wanted` is set, a read has searched it already.
    local first = self.first
    local piece = self[first]
    if piece and not self.wanted then
      local offset = self.offset
      local _, stop = find_text(piece, want, offset + 1, true)
      if stop then
        local left = self.bytes - (stop - offset)
        self.bytes = left
        if stop < #piece then
          self.offset = stop
        elseif left == 0 then
          self:clear()
        else
          self[first], self.first, self.offset = nil, first + 1, 0
        end
        return cut_text(piece, offset + 1, stop), left
      end
    end
    local count = find(self, want)
    if not count then return nil, self.bytes end
    self.wanted = nil
    return take(self, count), self.bytes
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
    self.wanted = nil
  end

  --- `dump()` → string: the unread bytes, which stay unread.
  function Buffer:dump()
    if self.bytes == 0 then return "" end
    local text = self:readall()
    self:append(text)
    return text
  end

  --- `new()` → buffer
  function Buffer.new()
    local empty = { first = 1, last = 0, offset = 0, bytes = 0, scanned = 0, tail = "" }
    empty.delimiter = empty -- none yet
    return setmetatable(empty, Buffer)
  end

  return Buffer
end
