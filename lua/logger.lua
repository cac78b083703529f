-- `logger`: formats log lines. Called with `write(level, text, place)` and the process's level.
return function(raw)
  local logger = { DEBUG = 0, INFO = 1, WARN = 2, ERROR = 3 }
  local DEPTH = 5
  local write, level = raw.write, raw.level
  local getinfo = debug.getinfo

  local function show(value, depth)
    if type(value) ~= "table" then return tostring(value) end
    local meta = getmetatable(value)
    if type(meta) == "table" and meta.__tostring then return tostring(value) end
    if depth == DEPTH then return "{...}" end
    local parts, count = {}, #value
    for at = 1, count do parts[at] = show(value[at], depth + 1) end
    for key, field in pairs(value) do
      if not (math.type(key) == "integer" and key >= 1 and key <= count) then
        parts[#parts + 1] = tostring(key) .. "=" .. show(field, depth + 1)
      end
    end
    return "{" .. table.concat(parts, ",") .. "}"
  end

  -- The function of a script that called the logger, two levels up.
  local function place()
    local info = getinfo(3, "Sl")
    if not info then return "?" end
    return info.short_src .. ":" .. info.currentline
  end

  local function noop() end

  local function plain(number)
    return function(...)
      local count = select("#", ...)
      if count == 1 then
        write(number, show(..., 0), place())
        return
      end
      local parts = table.pack(...)
      for at = 1, count do parts[at] = show(parts[at], 0) end
      write(number, table.concat(parts, " ", 1, count), place())
    end
  end

  local function formatted(number)
    return function(format, ...)
      local parts = table.pack(...)
      for at = 1, parts.n do
        local value = parts[at]
        if type(value) == "table" then parts[at] = show(value, 0) end
      end
      write(number, string.format(format, table.unpack(parts, 1, parts.n)), place())
    end
  end

  local names = { [0] = "debug", "info", "warn", "error" }
  local functions = {}
  for number = 0, 3 do
    functions[names[number]] = plain(number)
    functions[names[number] .. "f"] = formatted(number)
  end

  --- `getlevel()` → 0 to 3
  function logger.getlevel()
    return level
  end

  --- `setlevel(n)`: functions below it do nothing from now on.
  function logger.setlevel(number)
    if math.type(number) ~= "integer" or number < 0 or number > 3 then
      error("bad argument #1 to 'setlevel' (a level from 0 to 3 expected)", 2)
    end
    level = number
    for at = 0, 3 do
      local name = names[at]
      logger[name] = at < number and noop or functions[name]
      logger[name .. "f"] = at < number and noop or functions[name .. "f"]
    end
  end

  logger.setlevel(level)
  return logger
end
