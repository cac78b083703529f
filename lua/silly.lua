-- `silly`: protected calls, errors for the log, engine messages.
return function(silly)
  local task = require "silly.task"
  local handlers = {}

  --- `pcall(f, ...)`: as Lua's own, but the error text carries a traceback.
  function silly.pcall(f, ...)
    return xpcall(f, debug.traceback, ...)
  end

  --- `error(message)`: logs it with a traceback and continues.
  silly.error = task.error

  --- `start(fn)`: begins a coroutine, as in Silly's releases of 2024, where only such a one could wait.
  function silly.start(fn)
    task.fork(fn)
  end

  --- `register(kind, fn)`: keeps a handler for messages of Silly's engine. There are none here, so it
  --- is never called; programs that register and do not depend on it run.
  function silly.register(kind, fn)
    if kind == nil then error("bad argument #1 to 'register' (value expected)", 2) end
    if fn ~= nil and type(fn) ~= "function" then
      error(("bad argument #2 to 'register' (function expected, got %s)"):format(type(fn)), 2)
    end
    handlers[kind] = fn
  end

  --- `tostring(value[, size])`: Silly makes a string of a pointer; here there are only strings.
  function silly.tostring(value, size)
    value = tostring(value)
    return size and value:sub(1, size) or value
  end

  -- Replaced in a server by requests to its upstreams and through its routes.
  for _, name in ipairs { "upstream", "route" } do
    silly[name] = function()
      error(("tide.%s is there only in a server (tidegate up)"):format(name), 2)
    end
  end

  return silly
end
