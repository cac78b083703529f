-- `internal.stdin`: standard input whose reads wait, while other coroutines run.
return function()
  local hive = require "silly.hive"

  -- Made at the first read: a program that reads nothing has no thread.
  local worker

  local function call(method, ...)
    worker = worker or hive.spawn [[
      local stdin = io.stdin
      return function(method, ...)
        return stdin[method](stdin, ...)
      end
    ]]
    return hive.invoke(worker, method, ...)
  end

  local stdin = setmetatable({}, {
    __name = "FILE*",
    __tostring = function() return "standard input" end,
  })

  --- `read(…)`: as Lua's `file:read`; it waits.
  function stdin:read(...)
    return call("read", ...)
  end

  --- `lines(…)` → iterator: as Lua's `file:lines`.
  function stdin:lines(...)
    local formats = table.pack(...)
    return function() return self:read(table.unpack(formats, 1, formats.n)) end
  end

  --- `close()`: later reads fail.
  function stdin:close()
    return call "close"
  end

  return stdin
end
