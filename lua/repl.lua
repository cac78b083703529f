-- The prompt of `tidegate run -i`: reads chunks from standard input and runs them.
--
-- A chunk runs in the coroutine of the prompt, so it may wait; timers and connections continue
-- while the prompt waits for input. Called with standard input and the version of Tidegate.
return function(stdin, version)
  local function write(...)
    io.stdout:write(...)
    io.stdout:flush()
  end

  local function compile(text)
    return load("return " .. text, "=stdin") or load(text, "=stdin")
  end

  --- The next chunk, over as many lines as it takes; nil at the end of the input.
  local function read()
    write "> "
    local text = stdin:read "L"
    if not text then return nil end
    -- As in Lua's own prompt.
    text = text:gsub("^%s*=", "return ")
    while true do
      local chunk = compile(text)
      if chunk then return chunk end
      local _, why = load(text, "=stdin")
      if not why:find "<eof>$" then return nil, why end
      write ">> "
      local line = stdin:read "L"
      if not line then return nil, why end
      text = text .. line
    end
  end

  local function show(ok, ...)
    if not ok then
      io.stderr:write((...), "\n")
    elseif select("#", ...) > 0 then
      print(...)
    end
  end

  local function traced(err)
    local text = debug.traceback(tostring(err), 2)
    return (text:gsub("\n%s*%[C%]: in global 'xpcall'.*", ""):gsub("\n%s*%[C%]: in upvalue 'xpcall'.*", ""))
  end

  write("Tidegate ", version, ", ", _VERSION, ". Calls may wait. End of input or silly.exit() ends.\n")
  while true do
    local chunk, why = read()
    if chunk then
      show(xpcall(chunk, traced))
    elseif why then
      io.stderr:write(why, "\n")
    else
      write "\n"
      return
    end
  end
end
