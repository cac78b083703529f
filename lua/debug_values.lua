-- Values of a debugged program for `debug_adapter.lua`: their texts, the entries of what has
-- entries, and the evaluation of expressions in a frame.
return function()
  local SHOWN_BYTES = 500
  local values = {}

  --- Text that JSON can have.
  function values.plain(text)
    if utf8.len(text) then return text end
    return (text:gsub("[\128-\255]", function(byte) return ("\\x%02x"):format(byte:byte()) end))
  end

  local function quoted(text)
    local shown = #text > SHOWN_BYTES and text:sub(1, SHOWN_BYTES) or text
    shown = shown:gsub('[%c"\\]', function(byte)
      local escapes = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ['"'] = '\\"', ["\\"] = "\\\\" }
      return escapes[byte] or ("\\x%02x"):format(byte:byte())
    end)
    local rest = #text > SHOWN_BYTES and ("... (%d bytes)"):format(#text) or ""
    return '"' .. values.plain(shown) .. '"' .. rest
  end

  --- The text of a value. No metamethod of the program is called but `__tostring` of userdata.
  function values.show(value)
    local kind = type(value)
    if kind == "string" then return quoted(value) end
    if kind == "table" then return ("%s #%d"):format(("%p"):format(value), rawlen(value)) end
    if kind == "function" then
      local info = debug.getinfo(value, "S")
      if info.what == "C" then return "function (C)" end
      return values.plain(("function %s:%d"):format(info.short_src, info.linedefined))
    end
    local ok, text = pcall(tostring, value)
    text = ok and text or kind
    return values.plain(#text > SHOWN_BYTES and text:sub(1, SHOWN_BYTES) or text)
  end

  --- The name of a table's key as an expression.
  local function key_name(key)
    if type(key) == "string" and key:find "^[%a_][%w_]*$" then return key end
    return "[" .. values.show(key) .. "]"
  end

  -- A frame is { thread =, level =, fn = }; one of the running coroutine has no thread, and the level
  -- that `values.locals` sees.

  --- Locals and variable arguments that are in scope: a list of { name, value, index }.
  function values.locals(frame)
    local list, at = {}, {}
    for _, step in ipairs { 1, -1 } do
      local index = step
      while true do
        local name, value
        if frame.thread then
          name, value = debug.getlocal(frame.thread, frame.level, index)
        else
          name, value = debug.getlocal(frame.level, index)
        end
        if not name then break end
        if step < 0 then name = "..." .. -index end
        if name:sub(1, 1) ~= "(" then
          -- Of several with this name the last one is in scope.
          at[name] = at[name] or #list + 1
          list[at[name]] = { name, value, index }
        end
        index = index + step
      end
    end
    return list
  end

  function values.upvalues(frame)
    local list = {}
    for index = 1, math.maxinteger do
      local name, value = debug.getupvalue(frame.fn, index)
      if not name then return list end
      if name ~= "_ENV" and name ~= "(no name)" and name ~= "" then
        list[#list + 1] = { name, value, index }
      end
    end
  end

  --- The table of the globals that a function sees.
  function values.globals(frame)
    for index = 1, math.maxinteger do
      local name, value = debug.getupvalue(frame.fn, index)
      if not name then return _G end
      if name == "_ENV" then return value end
    end
  end

  --- Counts the entries of a table with the keys 1 to n, and the others.
  function values.count(value)
    local indexed, named = rawlen(value), 0
    for key in next, value do
      if math.type(key) ~= "integer" or key < 1 or key > indexed then named = named + 1 end
    end
    return indexed, named + (debug.getmetatable(value) and 1 or 0)
  end

  --- Entries of a table: `count` of them from the one after `first` on, of the "indexed" ones, of the
  --- "named" ones, or of all.
  function values.entries(value, filter, first, count)
    local list, indexed = {}, rawlen(value)
    local skip, last = first, first + count
    if filter ~= "named" then
      for at = first + 1, math.min(indexed, last) do
        list[#list + 1] = { "[" .. at .. "]", rawget(value, at) }
      end
      if filter == "indexed" then return list end
      skip = math.max(first - indexed, 0)
    end
    for key, entry in next, value do
      if #list == count then return list end
      if math.type(key) ~= "integer" or key < 1 or key > indexed then
        if skip == 0 then list[#list + 1] = { key_name(key), entry } end
        skip = math.max(skip - 1, 0)
      end
    end
    local meta = debug.getmetatable(value)
    if meta and skip == 0 and #list < count then list[#list + 1] = { "(metatable)", meta } end
    return list
  end

  local function by_name(list)
    local names = {}
    for _, entry in ipairs(list) do names[entry[1]] = entry end
    return names
  end

  --- The environment of expressions in a frame: its locals, upvalues and globals, which they may set.
  local function environment(frame)
    local globals = values.globals(frame)
    local locals, upvalues = by_name(values.locals(frame)), by_name(values.upvalues(frame))
    return setmetatable({}, {
      __index = function(_, name)
        local found = locals[name] or upvalues[name]
        if found then return found[2] end
        return globals[name]
      end,
      __newindex = function(_, name, value)
        local found = locals[name] or upvalues[name]
        if not found then
          globals[name] = value
          return
        end
        if found == locals[name] then
          debug.setlocal(frame.thread, frame.level, found[3], value)
        else
          debug.setupvalue(frame.fn, found[3], value)
        end
        found[2] = value
      end,
    })
  end

  --- An expression as a function of nothing, whose globals are replaced by `evaluate`; or nil, reason.
  function values.compile(text)
    return load("return " .. text, "=expression", "t", {})
  end

  --- The results of an expression in a frame, or of statements; without a frame, of globals.
  function values.evaluate(text, frame)
    local chunk = values.compile(text)
    if not chunk then
      local why
      chunk, why = load(text, "=expression", "t", {})
      if not chunk then return false, why end
    end
    debug.setupvalue(chunk, 1, frame and environment(frame) or _G)
    return pcall(chunk)
  end

  --- The result of a compiled expression in the function `level` levels up, as the caller counts them,
  --- whose line is about to run. What the expression sets stays its own.
  function values.result_at(chunk, level)
    local frame = { level = level + 2, fn = debug.getinfo(level + 1, "f").func }
    local globals, seen = values.globals(frame), {}
    for _, list in ipairs { values.upvalues(frame), values.locals(frame) } do
      for _, entry in ipairs(list) do seen[entry[1]] = { entry[2] } end
    end
    debug.setupvalue(chunk, 1, setmetatable({}, { __index = function(_, name)
      local found = seen[name]
      if found then return found[1] end
      return globals[name]
    end }))
    return pcall(chunk)
  end

  return values
end
