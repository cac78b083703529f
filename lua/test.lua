-- `test`: checks of a test, and its clock. Called with stop_clock and advance.
return function(test, check)
  local DEPTH, ITEMS, TEXT_BYTES = 8, 50, 200

  local function shown(value, depth, seen)
    if type(value) == "string" then
      local text = #value > TEXT_BYTES and value:sub(1, TEXT_BYTES) .. "…" or value
      return ("%q"):format(text):gsub("\\\n", "\\n")
    end
    if type(value) ~= "table" then return tostring(value) end
    local meta = getmetatable(value)
    if seen[value] or depth > DEPTH or type(meta) == "table" and meta.__tostring then
      return tostring(value)
    end
    seen[value] = true
    local items, listed = {}, #value
    for at = 1, math.min(listed, ITEMS) do items[at] = shown(value[at], depth + 1, seen) end
    local rest = {}
    for key, item in pairs(value) do
      if not (math.type(key) == "integer" and key >= 1 and key <= listed) then
        local name = type(key) == "string" and key:find "^[%a_][%w_]*$" and key
          or "[" .. shown(key, depth + 1, seen) .. "]"
        rest[#rest + 1] = name .. " = " .. shown(item, depth + 1, seen)
      end
    end
    table.sort(rest)
    table.move(rest, 1, math.min(#rest, ITEMS), #items + 1, items)
    if listed > ITEMS or #rest > ITEMS then items[#items + 1] = "…" end
    seen[value] = nil
    return "{ " .. table.concat(items, ", ") .. " }"
  end

  --- Where two values differ, as a path and the two; nil if they are equal.
  local function difference(got, expected, path, seen)
    if rawequal(got, expected) or got ~= got and expected ~= expected then return nil end
    if type(got) ~= "table" or type(expected) ~= "table" then
      if got == expected then return nil end
      return path, got, expected
    end
    if seen[got] == expected then return nil end
    seen[got] = expected
    for key, value in pairs(expected) do
      local step = type(key) == "string" and "." .. key or "[" .. tostring(key) .. "]"
      local at, one, other = difference(got[key], value, path .. step, seen)
      if at then return at, one, other end
    end
    for key, value in pairs(got) do
      if expected[key] == nil then
        local step = type(key) == "string" and "." .. key or "[" .. tostring(key) .. "]"
        return path .. step, value, nil
      end
    end
  end

  --- `equal(got, expected[, message])`: tables are compared by their contents.
  function test.equal(got, expected, message)
    local path, one, other = difference(got, expected, "", {})
    if not path then return end
    local text = ("got %s, expected %s"):format(shown(got, 0, {}), shown(expected, 0, {}))
    if path ~= "" then
      text = text .. ("\nthey differ at %s: %s, expected %s"):format(path:gsub("^%.", ""), shown(one, 0, {}),
        shown(other, 0, {}))
    end
    error(message and tostring(message) .. ": " .. text or text, 2)
  end

  --- `raises(pattern, fn, ...)` → the error that `fn(...)` raises, whose text has to match.
  function test.raises(pattern, fn, ...)
    check("raises", 1, pattern, "string")
    check("raises", 2, fn, "function")
    local ok, err = pcall(fn, ...)
    if ok then error(("an error that matches %q was expected, and none was raised"):format(pattern), 2) end
    if not tostring(err):find(pattern) then
      error(("an error that matches %q was expected, got %s"):format(pattern, shown(err, 0, {})), 2)
    end
    return err
  end

  --- `skip([reason])`: ends the test, which counts as skipped.
  function test.skip(reason)
    error({ skipped = reason and tostring(reason) or "" }, 0)
  end

  return test
end
