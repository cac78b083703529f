-- `stream`: pipelines of pieces, from a source through stages into a sink.
--
-- Everything is pulled: a source is read when the sink wants more, so a slow sink holds its source back
-- and nothing accumulates. The first failure ends the pipeline and closes both of its ends.
return function(_, check)
  local errno = require "silly.errno"

  local PIECE_BYTES = 64 * 1024
  -- Bytes that a decompressor gets at once: its output may be a thousand times as long.
  local PACKED_BYTES = 4 * 1024
  local LINE_BYTES = 1024 * 1024
  local STRING_BYTES = 64 * 1024 * 1024
  -- Unsent bytes of a connection before the pipeline waits for its peer.
  local UNSENT_BYTES = 256 * 1024

  local Source = { __name = "source" }
  Source.__index = Source
  local Stage = { __name = "stage" }
  local Sink = { __name = "sink" }
  local Pipeline = { __name = "pipeline" }
  Pipeline.__index = Pipeline

  local stream = {}

  --- A source of `read()` → piece | nil at the end | nil, err.
  local function source(read, close)
    return setmetatable({ next = read, ended = close }, Source)
  end

  --- `source:read()` → piece | nil at the end | nil, err. After that it is closed.
  function Source:read()
    if self.over then return nil, self.why end
    local piece, why = self.next()
    if piece == nil then
      self.over, self.why = true, why
      self:close()
    end
    return piece, why
  end

  function Source:close()
    self.over = true
    local ended = self.ended
    self.ended = nil
    if ended then ended() end
  end

  Source.__close = Source.close

  --- `for piece in source:pieces() do`: an error of the source is raised.
  function Source:pieces()
    return function()
      local piece, why = self:read()
      if why then error(why, 0) end
      return piece
    end, nil, nil, self
  end

  local function stage(wrap)
    return setmetatable({ wrap = wrap }, Stage)
  end

  --- A sink of `write(piece)` → true | nil, err and `finish()` → result; `abort()` after a failure.
  local function sink(begin)
    return setmetatable({ begin = begin }, Sink)
  end

  local function join(left, right)
    local from, to = getmetatable(left), getmetatable(right)
    if to == Stage and from == Source then
      return source(right.wrap(function() return left:read() end), function() left:close() end)
    elseif to == Stage and from == Stage then
      return stage(function(read) return right.wrap(left.wrap(read)) end)
    elseif to == Sink and from == Source then
      return setmetatable({ source = left, sink = right }, Pipeline)
    elseif to == Sink and from == Stage then
      return sink(function() error("stream: a sink follows a source", 0) end)
    end
    error("stream: '|' joins a source or a stage with a stage, or a source with a sink", 2)
  end
  Source.__bor, Stage.__bor = join, join

  --- `pipeline:run()` → the result of the sink | nil, err
  function Pipeline:run()
    local from <close> = self.source
    local into, why = self.sink.begin()
    if not into then return nil, why end
    local settled <close> = setmetatable({}, { __close = function() if into.abort then into.abort() end end })
    while true do
      local piece
      piece, why = from:read()
      if piece == nil then break end
      local ok
      ok, why = into.write(piece)
      if not ok then break end
    end
    if why then return nil, why end
    return into.finish()
  end

  --- `run(source | stage | ... | sink)` is `(source | ... | sink):run()`.
  function stream.run(pipeline)
    if getmetatable(pipeline) ~= Pipeline then error("bad argument #1 to 'run' (a pipeline expected)", 2) end
    return pipeline:run()
  end

  -- Sources.

  --- `text(string)`: in pieces.
  function stream.text(text)
    check("text", 1, text, "string")
    local at = 1
    return source(function()
      if at > #text then return nil end
      local piece = text:sub(at, at + PIECE_BYTES - 1)
      at = at + PIECE_BYTES
      return piece
    end)
  end

  --- `from(fn[, close])`: what `fn()` returns until that is nil; `nil, err` is a failure.
  function stream.from(fn, close)
    check("from", 1, fn, "function")
    return source(fn, close)
  end

  --- `file(path)`
  function stream.file(path)
    check("file", 1, path, "string")
    local file
    return source(function()
      local why
      if not file then
        file, why = require "tide.fs".open(path)
        if not file then return nil, why end
      end
      local piece
      piece, why = file:read(PIECE_BYTES)
      if why == errno.EOF then why = nil end
      return piece, why
    end, function() if file then file:close() end end)
  end

  --- `conn(conn[, ms])`: what it receives, until its peer ends; no piece may take longer than `ms`.
  function stream.conn(conn, ms)
    return source(function()
      local piece, why = conn:readall(PIECE_BYTES, ms)
      if why == errno.EOF then why = nil end
      return piece, why
    end)
  end

  -- Stages.

  --- A stage of `step(piece)` → piece | nil, err and `last()` likewise; empty pieces are left out.
  local function stepwise(make)
    return stage(function(read)
      local step, last = make()
      local done = false
      return function()
        while not done do
          local piece, why = read()
          if piece == nil and why then return nil, why end
          if piece == nil then
            done = true
            piece, why = last()
          else
            piece, why = step(piece)
          end
          if why then return nil, why end
          if piece ~= nil and piece ~= "" then return piece end
        end
      end
    end)
  end

  local function packing(module)
    return function(level)
      return stepwise(function()
        local packer = require(module).compressor(level)
        return function(piece) return packer:write(piece) end, function() return packer:finish() end
      end)
    end
  end

  local function unpacking(module)
    return function(limit)
      return stage(function(read)
        local unpacker = require(module).decompressor(limit)
        local packed, at, done = "", 1, false
        return function()
          while not done do
            local piece, why
            if at <= #packed then
              piece, why = unpacker:write(packed:sub(at, at + PACKED_BYTES - 1))
              at = at + PACKED_BYTES
            else
              packed, why = read()
              at = 1
              if packed == nil then
                if why then return nil, why end
                done = true
                piece, why = unpacker:finish()
              end
            end
            if why then return nil, why end
            if piece and piece ~= "" then return piece end
          end
        end
      end)
    end
  end

  --- `gzip([level])`, `gunzip([limit])`: the limit on the output is 64 MiB. The same for br and zstd.
  for name, back in pairs{ gzip = "gunzip", br = "unbr", zstd = "unzstd" } do
    stream[name] = packing("tide.compress." .. name)
    stream[back] = unpacking("tide.compress." .. name)
  end

  --- Pieces of a multiple of `unit` bytes; the last one is the rest.
  local function in_units(unit, turn)
    return stepwise(function()
      local rest = ""
      return function(piece)
        piece = rest .. piece
        local whole = #piece - #piece % unit
        rest = piece:sub(whole + 1)
        return turn(piece:sub(1, whole))
      end, function() return turn(rest) end
    end)
  end

  --- `base64()`: as text, without line ends.
  function stream.base64()
    return in_units(3, require "silly.encoding.base64".encode)
  end

  --- `unbase64()`: strict, but line ends and blanks are passed over.
  function stream.unbase64()
    local strict = require "silly.encoding.base64".decode_strict
    local clean = stream.map(function(piece) return (piece:gsub("%s+", "")) end)
    return clean | in_units(4, strict)
  end

  --- `lines([limit])`: without their ends, LF or CR LF.
  function stream.lines(limit)
    limit = limit or LINE_BYTES
    return stage(function(read)
      local text, at, begun, length, done = "", 1, {}, 0, false
      local function line(last)
        table.insert(begun, last)
        local found = #begun == 1 and last or table.concat(begun)
        begun, length = {}, 0
        return (found:gsub("\r$", ""))
      end
      return function()
        while not done do
          local stop = text:find("\n", at, true)
          local part = text:sub(at, (stop or 0) - 1)
          length = length + #part
          if length > limit then return nil, ("a line is longer than %d bytes"):format(limit) end
          if stop then
            at = stop + 1
            return line(part)
          end
          if part ~= "" then table.insert(begun, part) end
          local why
          text, why = read()
          at = 1
          if text == nil then
            if why then return nil, why end
            done = true
            if length > 0 then return line("") end
          end
        end
      end
    end)
  end

  --- `json([limit])`: a value of each line; empty lines are passed over.
  function stream.json(limit)
    local decode = require "silly.encoding.json".decode
    local values = stepwise(function()
      local number = 0
      return function(line)
        number = number + 1
        if not line:find("%S") then return nil end
        local value, why = decode(line)
        if value == nil then return nil, ("line %d: %s"):format(number, why) end
        return value
      end, function() end
    end)
    return stream.lines(limit) | values
  end

  --- `tojson()`: each value as a line.
  function stream.tojson()
    local encode = require "silly.encoding.json".encode
    return stream.map(function(value)
      local text, why = encode(value)
      if not text then return nil, why end
      return text .. "\n"
    end)
  end

  --- `map(fn)`: what `fn(piece)` makes of each; nil drops it, `nil, err` ends the pipeline.
  function stream.map(fn)
    check("map", 1, fn, "function")
    return stepwise(function() return fn, function() end end)
  end

  --- `filter(fn)`: those for which `fn(piece)` is true.
  function stream.filter(fn)
    check("filter", 1, fn, "function")
    return stream.map(function(piece)
      if fn(piece) then return piece end
    end)
  end

  --- `take(n)`: the first n pieces; the rest is not read.
  function stream.take(n)
    return stage(function(read)
      local left = n
      return function()
        if left <= 0 then return nil end
        left = left - 1
        return read()
      end
    end)
  end

  -- Sinks.

  --- `totext([limit])` → the string; 64 MiB
  function stream.totext(limit)
    limit = limit or STRING_BYTES
    return sink(function()
      local parts, length = {}, 0
      return {
        write = function(piece)
          length = length + #piece
          if length > limit then return nil, ("there are more than %d bytes"):format(limit) end
          table.insert(parts, piece)
          return true
        end,
        finish = function() return table.concat(parts) end,
      }
    end)
  end

  --- `tolist([limit])` → the pieces; 100 000
  function stream.tolist(limit)
    limit = limit or 100000
    return sink(function()
      local list = {}
      return {
        write = function(piece)
          if #list == limit then return nil, ("there are more than %d pieces"):format(limit) end
          table.insert(list, piece)
          return true
        end,
        finish = function() return list end,
      }
    end)
  end

  --- `tofile(path[, "w" | "a"])` → bytes written
  function stream.tofile(path, mode)
    check("tofile", 1, path, "string")
    return sink(function()
      local file, why = require "tide.fs".open(path, mode or "w")
      if not file then return nil, why end
      local count = 0
      return {
        write = function(piece)
          count = count + #piece
          return file:write(piece)
        end,
        finish = function() return count end,
        abort = function() file:close() end,
      }
    end)
  end

  --- `toconn(conn)` → bytes sent. It is not closed: others may have something to say.
  function stream.toconn(conn)
    return sink(function()
      local count = 0
      return {
        write = function(piece)
          local ok, why = conn:write(piece)
          if not ok then return nil, why end
          count = count + #piece
          if conn:unsentbytes() >= UNSENT_BYTES then return conn:flush() end
          return true
        end,
        finish = function()
          local ok, why = conn:flush()
          if not ok then return nil, why end
          return count
        end,
      }
    end)
  end

  --- `each(fn)` → how many pieces; `fn(piece)` may return false to have enough, or `nil, err` to fail.
  function stream.each(fn)
    check("each", 1, fn, "function")
    return sink(function()
      local count = 0
      return {
        write = function(piece)
          count = count + 1
          local go, why = fn(piece)
          if go == nil and why then return nil, why end
          return go ~= false
        end,
        finish = function() return count end,
      }
    end)
  end

  return stream
end
