-- The runner of `tidegate test`: loads a file, and runs one of its tests.
--
-- Called with the file as a function. Returns `list()`, which loads it and returns its tests, and
-- `run(n)`, which loads it and runs the test with that number.
return function(chunk)
  local cases, names = {}, {}
  -- The hooks of the file, and of each `describe` that is open.
  local scopes = { { before = {}, after = {} } }

  local function expect(name, at, value, kind)
    if type(value) ~= kind then
      error(("bad argument #%d to '%s' (%s expected, got %s)"):format(at, name, kind, type(value)), 3)
    end
  end

  --- `describe(name, fn)`: groups the tests that `fn` declares.
  function describe(name, fn)
    expect("describe", 1, name, "string")
    expect("describe", 2, fn, "function")
    names[#names + 1] = name
    scopes[#scopes + 1] = { before = {}, after = {} }
    fn()
    names[#names] = nil
    scopes[#scopes] = nil
  end

  --- `it(name, fn[, { timeout = ms }])`: declares a test.
  function it(name, fn, options)
    expect("it", 1, name, "string")
    expect("it", 2, fn, "function")
    local path = table.move(names, 1, #names, 1, {})
    path[#path + 1] = name
    cases[#cases + 1] = {
      name = table.concat(path, ": "), fn = fn, timeout = options and options.timeout,
      scopes = table.move(scopes, 1, #scopes, 1, {}),
    }
  end

  --- `before_each(fn)` and `after_each(fn)`: called around each test of this file or group.
  function before_each(fn)
    expect("before_each", 1, fn, "function")
    table.insert(scopes[#scopes].before, fn)
  end

  function after_each(fn)
    expect("after_each", 1, fn, "function")
    table.insert(scopes[#scopes].after, 1, fn)
  end

  local function load_file()
    local known = {}
    for name in pairs(_G) do known[name] = true end
    chunk()
    local plain = {}
    for name, value in pairs(_G) do
      local named = type(name) == "string" and name:find "^test"
      if named and type(value) == "function" and not known[name] then plain[#plain + 1] = name end
    end
    table.sort(plain)
    for _, name in ipairs(plain) do it(name, _G[name]) end
  end

  --- The traceback ends where the test began.
  local function traced(err)
    if type(err) == "table" and err.skipped then return err end
    if type(err) == "table" and not (getmetatable(err) or {}).__tostring then
      err = "an error that is a table: " .. (err.message and tostring(err.message) or tostring(err))
    end
    local lines, runner = {}, false
    for line in debug.traceback(tostring(err), 2):gmatch "[^\n]+" do
      runner = runner or line:find("tidegate/test_runner.lua", 1, true)
      local inner = line:find("%[C%]: in function 'error'") or line:find("tidegate/test.lua", 1, true)
      if not runner and not inner then lines[#lines + 1] = line end
    end
    if lines[#lines] and lines[#lines]:find "^%s*%[C%]: in function 'xpcall'$" then lines[#lines] = nil end
    return table.concat(lines, "\n")
  end

  local running

  return {
    list = function()
      load_file()
      local list = {}
      for at, case in ipairs(cases) do list[at] = { case.name, case.timeout or 0 } end
      return list
    end,

    --- "passed"; "skipped", reason; "failed", text
    run = function(number)
      load_file()
      local case = cases[number]
      if not case then return "failed", "the file does not declare this test every time it is loaded" end
      running = coroutine.running()
      local ok, err = xpcall(function()
        for _, scope in ipairs(case.scopes) do
          for _, before in ipairs(scope.before) do before() end
        end
        case.fn()
      end, traced)
      for at = #case.scopes, 1, -1 do
        for _, after in ipairs(case.scopes[at].after) do
          local done, why = xpcall(after, traced)
          if ok and not done then ok, err = done, why end
        end
      end
      if ok then return "passed" end
      if type(err) == "table" then return "skipped", err.skipped end
      return "failed", err
    end,

    --- Where the test waits.
    where = function()
      local lines = {}
      for line in debug.traceback(running or coroutine.running()):gmatch "[^\n]+" do
        if line:find("tidegate/test_runner.lua", 1, true) then break end
        lines[#lines + 1] = line
      end
      return table.concat(lines, "\n")
    end,
  }
end
