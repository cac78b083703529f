-- `perf`: measures sections of a program. Called with `hrtime()`.
return function(perf)
  local task = require "silly.task"
  local hrtime = perf.hrtime

  -- Finished sections by name, and the ones each coroutine is in.
  local totals = {}
  local open = setmetatable({}, { __mode = "k" })

  local function sections()
    local co = task.running()
    local stack = open[co]
    if not stack then
      stack = {}
      open[co] = stack
    end
    return stack
  end

  --- `start(name)`: a section of this coroutine begins.
  function perf.start(name)
    local stack = sections()
    stack[#stack + 1] = { name = name, since = hrtime(), spent = 0 }
  end

  --- `stop(name)`: the innermost section of that name ends.
  function perf.stop(name)
    local stack = sections()
    for at = #stack, 1, -1 do
      local section = stack[at]
      if section.name == name then
        table.remove(stack, at)
        local total = totals[name]
        if not total then
          total = { name = name, call = 0, time = 0 }
          totals[name] = total
        end
        total.call = total.call + 1
        total.time = total.time + section.spent + hrtime() - section.since
        return
      end
    end
    error("perf.stop: section '" .. tostring(name) .. "' was not started", 2)
  end

  --- `yield()`: this coroutine is about to wait; the time of its sections stops.
  function perf.yield()
    local now = hrtime()
    for _, section in ipairs(sections()) do
      section.spent = section.spent + now - section.since
    end
  end

  --- `resume(co)`: the coroutine continues.
  function perf.resume(co)
    local now = hrtime()
    for _, section in ipairs(open[co] or {}) do section.since = now end
  end

  --- `dump([name])` → { name = { call, time in ns } }, or that of one section
  function perf.dump(name)
    if name ~= nil then return totals[name] end
    return totals
  end

  return perf
end
