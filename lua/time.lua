-- `time`: time-outs, throttle and debounce, on top of sleeping and calling later.
return function(time, check)
  local task = require "silly.task"

  --- `timeout(ms, fn, ...)` returns what `fn(...)` returns, or `nil, errno.TIMEDOUT` after `ms`.
  --- The function runs in a coroutine of its own and is not stopped: what it returns later is
  --- dropped, an error it raises later is logged. One that it raises in time is raised here.
  function time.timeout(ms, fn, ...)
    check("timeout", 1, ms, "number")
    check("timeout", 2, fn, "function")
    local waiter = task.running()
    if not task.status(waiter) then error("time.timeout: only a task may wait", 2) end
    local result
    local function settle(...)
      result = table.pack(...)
      if task.status(waiter) == "WAIT" then task.wakeup(waiter) end
    end
    local session = time.after(ms, function()
      if not result then settle(true, nil, time.TIMEDOUT) end
    end)
    local function finish(ok, ...)
      if result then
        if not ok then task.error((...)) end
        return
      end
      time.cancel(session)
      settle(ok, ...)
    end
    task.fork(function(...) finish(pcall(fn, ...)) end, ...)
    -- Another wake of this coroutine is not the one it waits for.
    while not result do task.wait() end
    if not result[1] then error(result[2], 0) end
    return table.unpack(result, 2, result.n)
  end

  --- `throttle(ms, fn)` returns a function that calls `fn` at most once in `ms`: at once, and with
  --- the latest arguments once the time is up if it was called before that.
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
