-- `time`: what is built from sleeping and calling later.
return function(time)
  local task = require "silly.task"

  local function check(name, index, value, kind)
    if type(value) ~= kind then
      error(("bad argument #%d to '%s' (%s expected, got %s)"):format(index, name, kind, type(value)), 3)
    end
  end

  --- `timeout(ms, fn, ...)` returns what `fn(...)` returns, or `nil, errno.TIMEDOUT` after `ms`.
  --- The function is not stopped: what it returns later is dropped. Its error is raised here.
  function time.timeout(ms, fn, ...)
    check("timeout", 1, ms, "number")
    check("timeout", 2, fn, "function")
    local waiter = task.running()
    local over = false
    local session
    local function finish(...)
      if over then return end
      over = true
      time.cancel(session)
      task.wakeup(waiter, table.pack(...))
    end
    task.fork(function(...) finish(pcall(fn, ...)) end, ...)
    session = time.after(ms, function()
      if not over then
        over = true
        task.wakeup(waiter, table.pack(true, nil, time.TIMEDOUT))
      end
    end)
    local result = task.wait()
    if not result[1] then error(result[2], 0) end
    return table.unpack(result, 2, result.n)
  end

  --- `throttle(ms, fn)` returns a function that calls `fn` at most once in `ms`: at once, and with
  --- the latest arguments once the time is up if it was called meanwhile.
  function time.throttle(ms, fn)
    check("throttle", 1, ms, "number")
    check("throttle", 2, fn, "function")
    local resting, latest = false, nil
    local function rest()
      local arguments = latest
      latest = nil
      if not arguments then resting = false return end
      time.after(ms, rest)
      fn(table.unpack(arguments, 1, arguments.n))
    end
    return function(...)
      if resting then latest = table.pack(...) return end
      resting = true
      time.after(ms, rest)
      fn(...)
    end
  end

  --- `debounce(ms, fn)` returns a function that calls `fn` with its latest arguments once it has not
  --- been called for `ms`.
  function time.debounce(ms, fn)
    check("debounce", 1, ms, "number")
    check("debounce", 2, fn, "function")
    local session, latest
    return function(...)
      latest = table.pack(...)
      if session then time.cancel(session) end
      session = time.after(ms, function()
        session = nil
        fn(table.unpack(latest, 1, latest.n))
      end)
    end
  end

  return time
end
