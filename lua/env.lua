-- `env`: keys are flat strings, values are strings. Called with the settings of the command line.
return function(values)
  local env = {}

  --- `get(key)` → string or nil
  function env.get(key)
    return values[key]
  end

  --- `set(key, value)`: nil removes the key.
  function env.set(key, value)
    if type(key) ~= "string" then
      error("bad argument #1 to 'set' (string expected, got " .. type(key) .. ")", 2)
    end
    if value ~= nil then value = tostring(value) end
    values[key] = value
  end

  local function flatten(prefix, settings)
    for key, value in pairs(settings) do
      local name = prefix .. tostring(key)
      if type(value) == "table" then
        flatten(name .. ".", value)
      elseif values[name] == nil then
        values[name] = tostring(value)
      end
    end
  end

  --- `load(file)` → nil, or the error in the file. In it, globals are settings, nested tables
  --- become dotted keys, `include(file)` reads another, `ENV(name)` is an environment variable.
  function env.load(file)
    local settings = {}
    local read

    local function include(name)
      read(name)
    end

    local scope = setmetatable({}, {
      __index = function(_, key)
        if key == "include" then return include end
        if key == "ENV" then return os.getenv end
        local value = settings[key]
        if value == nil then value = _G[key] end
        return value
      end,
      __newindex = settings,
    })

    function read(name)
      local chunk, why = loadfile(name, "t", scope)
      if not chunk then error(why, 0) end
      local result = chunk()
      if type(result) == "table" then
        for key, value in pairs(result) do settings[key] = value end
      end
    end

    local ok, why = pcall(read, file)
    if not ok then return why end
    flatten("", settings)
    return nil
  end

  return env
end
