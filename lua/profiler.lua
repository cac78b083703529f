-- `profiler`: records for a time, while other tasks run. Called with the functions that begin and
-- end a recording.
return function(raw)
  local time = require "silly.time"
  local MOST_MS, MOST_PER_SECOND, PER_SECOND = 600000, 1000, 100

  local profiler = {}

  local function check(name, index, value, most)
    if math.type(value) ~= "integer" or value < 1 or value > most then
      error(("bad argument #%d to '%s' (a number from 1 to %d expected)"):format(index, name, most), 3)
    end
  end

  --- Ends a recording even if its task is closed.
  local function record(ms, finish)
    local found
    do
      local _ <close> = setmetatable({}, { __close = function() found = finish() end })
      time.sleep(ms)
    end
    return found
  end

  --- `cpu(ms[, samples a second])` → profile; or nil, err: the CPU time of this VM's thread.
  function profiler.cpu(ms, per_second)
    check("cpu", 1, ms, MOST_MS)
    check("cpu", 2, per_second or PER_SECOND, MOST_PER_SECOND)
    local ok, why = raw.cpu(per_second or PER_SECOND)
    if not ok then return nil, why end
    return record(ms, raw.finish)
  end

  --- `allocations(ms)` → profile; or nil, err: the bytes that this VM allocates.
  function profiler.allocations(ms)
    check("allocations", 1, ms, MOST_MS)
    local ok, why = raw.allocations()
    if not ok then return nil, why end
    return record(ms, raw.finish)
  end

  --- `timeline(ms)` → text; or nil, err: when each coroutine ran, as JSON for Perfetto and Chrome.
  function profiler.timeline(ms)
    check("timeline", 1, ms, MOST_MS)
    local ok, why = raw.begin_timeline()
    if not ok then return nil, why end
    return record(ms, raw.finish_timeline)
  end

  local FORMATS = { { "%.svg$", "flamegraph" }, { "%.pb%.gz$", "pprof" }, { "%.folded$", "folded" } }

  --- `format(file)` → the method of a profile that gives the contents of a file with this name; or
  --- nil, err.
  function profiler.format(name)
    for _, format in ipairs(FORMATS) do
      if name:find(format[1]) then return format[2] end
    end
    return nil, "the name of a profile ends in .pb.gz, .svg or .folded: " .. name
  end

  --- `write(profile, file)` → true; or nil, err: in the format of the file's name.
  function profiler.write(profile, name)
    local method, why = profiler.format(name)
    if not method then return nil, why end
    local file
    file, why = io.open(name, "wb")
    if not file then return nil, why end
    local ok
    ok, why = file:write(profile[method](profile))
    local closed, reason = file:close()
    if not ok or not closed then return nil, why or reason end
    return true
  end

  return profiler
end
