-- Breakpoints of `debug_adapter.lua`: their conditions, hit counts, log messages and lines.
return function(values)
  local FILE_BYTES = 16 * 1024 * 1024
  local breakpoints = {}

  -- Hit conditions: true if the breakpoint pauses at its hit number `hits`.
  local COMPARISONS = {
    [""] = function(hits, number) return hits == number end,
    ["=="] = function(hits, number) return hits == number end,
    [">="] = function(hits, number) return hits >= number end,
    [">"] = function(hits, number) return hits > number end,
    ["<="] = function(hits, number) return hits <= number end,
    ["<"] = function(hits, number) return hits < number end,
    ["%"] = function(hits, number) return number > 0 and hits % number == 0 end,
  }

  local function hit_condition(text)
    local word, number = text:match "^%s*([=<>%%]*)%s*(%d+)%s*$"
    local compare, limit = COMPARISONS[word], math.tointeger(tonumber(number))
    if not compare or not limit then
      return nil, "a hit condition is a number, or one after ==, >, >=, <, <= or %"
    end
    return function(hits) return compare(hits, limit) end
  end

  --- A log message as a list of texts and compiled expressions; or nil, reason.
  local function log_message(text)
    local parts, from = {}, 1
    for before, expression, after in text:gmatch "()(%b{})()" do
      local chunk, why = values.compile(expression:sub(2, -2))
      if not chunk then return nil, why end
      parts[#parts + 1] = text:sub(from, before - 1)
      parts[#parts + 1] = chunk
      from = after
    end
    parts[#parts + 1] = text:sub(from)
    return parts
  end

  --- A text of a request that is not blank.
  local function text_of(value)
    return type(value) == "string" and value:find "%S" and value or nil
  end

  --- The function that decides whether a task pauses at a breakpoint; or nil, reason. It is called by
  --- the hook of the line, and `output(text)` takes what the breakpoint logs.
  function breakpoints.decision(wanted, output)
    local condition, is_hit, log, why
    if text_of(wanted.condition) then
      condition, why = values.compile(wanted.condition)
      if not condition then return nil, why end
    end
    if text_of(wanted.hitCondition) then
      is_hit, why = hit_condition(wanted.hitCondition)
      if not is_hit then return nil, why end
    end
    if text_of(wanted.logMessage) then
      log, why = log_message(wanted.logMessage)
      if not log then return nil, why end
    end
    local hits = 0
    return function()
      if condition then
        local ok, result = values.result_at(condition, 3)
        if not ok then
          -- The task pauses, so that the reason is seen where it arises.
          output("the condition of a breakpoint failed: " .. tostring(result))
          return true
        end
        if not result then return false end
      end
      hits = hits + 1
      if is_hit and not is_hit(hits) then return false end
      if not log then return true end
      local texts = {}
      for at, part in ipairs(log) do
        if type(part) == "function" then
          local _, result = values.result_at(part, 3)
          part = type(result) == "string" and result or values.show(result)
        end
        texts[at] = part
      end
      output(table.concat(texts))
      return false
    end
  end

  --- The lines of a file, without their ends; or nil, reason.
  function breakpoints.lines_of(path)
    local file, why = io.open(path, "rb")
    if not file then return nil, why end
    local text = file:read(FILE_BYTES)
    file:close()
    if not text then return nil, path .. " is empty" end
    local lines = {}
    for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
    return lines
  end

  --- The line at or after `line` that may have code: not blank, no comment alone.
  function breakpoints.code_line(lines, line)
    for at = math.max(line, 1), #lines do
      if lines[at]:find "%S" and not lines[at]:find "^%s*%-%-" then return at end
    end
  end

  return breakpoints
end
