-- `debugger`: breakpoints and steps, over a function that reads commands and one that writes; the
-- Debug Adapter Protocol is in `debug_adapter.lua`.
--
-- A task that reaches a breakpoint waits, and all others continue. While one is paused, no other
-- pauses. Coroutines that a script resumes itself, and the task of the session, never pause.
return function(raw, check)
  local task, logger = require "silly.task", require "silly.logger"

  local HELP = [[
List of commands:
b: insert a breakpoint [b file line]; the file of the paused task may be left out
d: delete a breakpoint, or all [d id]
n: run to the next line, over calls [n]
s: run to the next line, into calls [s]
c: continue the paused task [c]
p: print a variable: local, upvalue or global [p name]
bt: print the stack of the paused task [bt]
q: end the session, and continue the paused task [q]
An empty line repeats the last command.
]]
  local NOT_PAUSED = "no task is paused: one has to reach a breakpoint first\n"
  local SHOWN_DEPTH, SHOWN_ENTRIES, SHOWN_BYTES = 3, 50, 500

  -- The session that is open: there is one at a time.
  local session

  -- Paths of sources, so that the file system is asked once for each.
  local paths = {}

  local function path_of(source)
    local path = paths[source]
    if path == nil then
      path = source:sub(1, 1) == "@" and raw.absolute(source:sub(2)) or false
      paths[source] = path
    end
    return path
  end

  --- True if a breakpoint is in this source: by the end of its path, or by the whole path.
  local function is_in(point, source)
    if point.path then return path_of(source) == point.path end
    return source:sub(-#point.file) == point.file
  end

  --- How many calls the interrupted coroutine is in; called from `on_line`.
  local function depth()
    local level = 3
    while debug.getinfo(level, "l") do level = level + 1 end
    return level
  end

  local function prompt(open)
    if not open.paused then return "debugger> " end
    return ("debugger %s %s:%d> "):format(open.paused, open.file, open.line)
  end

  local function pause(open, thread, source, line, reason, points)
    open.paused, open.step = thread, nil
    open.file, open.line = source:gsub("^[@=]", ""), line
    -- A hook cannot wait, a write may.
    task.fork(function()
      if session == open and open.paused == thread then open.show(reason, points) end
    end)
    return true
  end

  --- True if the coroutine pauses before this line.
  local function on_line(line, may_pause)
    local open = session
    if not open or open.paused or not may_pause then return false end
    local thread, points = coroutine.running(), open.lines[line]
    local is_stepped = open.step == thread or open.step == "any"
    if not points and not is_stepped then return false end
    if thread == open.thread or task.status(thread) ~= "RUN" then return false end
    local source = debug.getinfo(2, "S").source
    local hit
    for id, point in pairs(points or {}) do
      if is_in(point, source) and (not point.passes or point.passes()) then
        hit = hit or {}
        hit[#hit + 1] = id
      end
    end
    local reason = hit and "breakpoint"
    if is_stepped and not reason and source:sub(1, 10) ~= "=tidegate/" then
      reason = (open.mode == "s" or depth() <= open.depth) and (open.reason or "step")
    end
    if not reason then return false end
    open.depth = depth()
    return pause(open, thread, source, line, reason, hit)
  end

  --- True if a coroutine that has failed keeps its stack.
  local function on_failure(thread, why)
    local open = session
    if not open or open.paused or thread == open.thread then return false end
    local info
    for level = 0, math.maxinteger do
      info = debug.getinfo(thread, level, "Sl")
      if not info or info.what ~= "C" then break end
    end
    open.failure = tostring(why)
    return pause(open, thread, info and info.source or "=?", info and info.currentline or 0, "exception")
  end

  local function arm(open)
    return raw.hook((open.step or next(open.points)) and on_line or nil)
  end

  --- Has a task pause at its next line, or with "any" whichever task is first.
  local function pause_next(open, thread, reason)
    open.step, open.mode, open.reason = thread, "s", reason
    arm(open)
  end

  --- Lets the paused task run. With a mode it pauses again: "s" at its next line, "n" at the next
  --- of this function, "o" after its return.
  local function continue(open, mode)
    local thread = open.paused
    open.paused, open.step, open.mode, open.reason = nil, mode and thread, mode, nil
    if mode == "o" then open.depth = open.depth - 1 end
    open.failure = nil
    arm(open)
    raw.wake(thread)
  end

  --- Adds a breakpoint: { line =, file = | path =, passes = fn }. Returns its number.
  local function insert(open, point)
    open.count = open.count + 1
    open.points[open.count] = point.line
    open.lines[point.line] = open.lines[point.line] or {}
    open.lines[point.line][open.count] = point
    arm(open)
    return open.count
  end

  local function remove(open, id)
    local line = open.points[id]
    open.points[id], open.lines[line][id] = nil, nil
    if not next(open.lines[line]) then open.lines[line] = nil end
    arm(open)
  end

  --- Opens the session for the call of `serve(open)`; returns nil and the reason if that cannot be.
  --- `show(reason, points)` is called when a task has paused.
  local function with_session(show, serve)
    if session then return nil, "debugger is already opened by other user" end
    local ok, why = raw.hook(nil)
    if not ok then return nil, why end
    local open = { points = {}, lines = {}, count = 0, thread = coroutine.running() }
    open.show = function(...) return show(open, ...) end
    session = open
    ok, why = pcall(serve, open)
    session = nil
    raw.hook(nil)
    raw.on_failure(nil)
    if open.paused then raw.wake(open.paused) end
    if not ok then logger.error("[debugger]", why) end
    return true
  end

  local function show(value, level)
    if type(value) == "string" then
      local text = #value > SHOWN_BYTES and value:sub(1, SHOWN_BYTES) .. "..." or value
      return "'" .. text:gsub("[^\32-\126]", function(byte) return ("\\x%02x"):format(byte:byte()) end) .. "'"
    end
    if type(value) ~= "table" then return tostring(value) end
    if level >= SHOWN_DEPTH then return "{...}" end
    local parts = {}
    for key, entry in next, value do
      if #parts == SHOWN_ENTRIES then
        parts[#parts + 1] = "..."
        break
      end
      parts[#parts + 1] = ("[%s] = %s"):format(show(key, SHOWN_DEPTH), show(entry, level + 1))
    end
    return "{" .. table.concat(parts, ", ") .. "}"
  end

  -- Each returns what is written before the prompt; nothing if the task runs to its next line.
  local commands = {}

  function commands.h() return HELP end

  function commands.b(open, file, line)
    if file and not line then
      -- `b file:line`, or a line of the paused file.
      local name, number = file:match "^(.*):(%d+)$"
      file, line = name or open.file, number or file
    end
    if not file then return "Invalid file name\n" end
    local number = math.tointeger(tonumber(line))
    if not number then return "Invalid line number\n" end
    local id = insert(open, { line = number, file = file })
    return ("Breakpoint $%d at file:%s, line:%d\n"):format(id, file, number)
  end

  function commands.d(open, id)
    local number = math.tointeger(tonumber(id))
    if id and not open.points[number or 0] then return "Invalid breakpoint id\n" end
    for at in pairs(id and { [number] = true } or open.points) do remove(open, at) end
    return ("Delete breakpoint $%s\n"):format(id or "ALL")
  end

  function commands.n(open)
    if not open.paused then return NOT_PAUSED end
    return continue(open, "n")
  end

  function commands.s(open)
    if not open.paused then return NOT_PAUSED end
    return continue(open, "s")
  end

  function commands.c(open)
    if not open.paused then return NOT_PAUSED end
    continue(open)
    return ""
  end

  function commands.p(open, name)
    if not open.paused then return NOT_PAUSED end
    if not name then return "Please input a variable name\n" end
    local found
    for index = 1, math.maxinteger do
      local known, value = debug.getlocal(open.paused, 0, index)
      if not known then break end
      -- Of several with this name the last one is in scope.
      if known == name then found = ("Param $%d %s = %s\n"):format(index, name, show(value, 0)) end
    end
    if found then return found end
    local fn, globals = debug.getinfo(open.paused, 0, "f").func, _G
    for index = 1, math.maxinteger do
      local known, value = debug.getupvalue(fn, index)
      if not known then break end
      if known == name then return ("Upvalue $%d %s = %s\n"):format(index, name, show(value, 0)) end
      if known == "_ENV" then globals = value end
    end
    local value = type(globals) == "table" and globals[name]
    if value ~= nil and value ~= false then return ("Global $_ENV %s = %s\n"):format(name, show(value, 0)) end
    return ("Variable %s nonexist\n"):format(name)
  end

  function commands.bt(open)
    if not open.paused then return NOT_PAUSED end
    return debug.traceback(open.paused, nil, 0) .. "\n"
  end

  local function serve(open, read, write)
    write(prompt(open))
    local words = { "h" }
    while true do
      local line = read()
      if not line then return end
      if line:find "%g" then
        words = {}
        for word in line:gmatch "%g+" do words[#words + 1] = word end
      end
      local name = words[1]:lower()
      if name == "q" then return write "Bye, Bye!\n" end
      local command = commands[name]
      local text = "Undefined command: " .. name .. "\n"
      if command then text = command(open, table.unpack(words, 2)) end
      if text then write(text .. prompt(open)) end
    end
  end

  local module = {}

  --- `start(read, write) → text`: a session in this task, until `read` returns nil or the command q.
  function module.start(read, write)
    check("start", 1, read, "function")
    check("start", 2, write, "function")
    local function show_pause(open) write("\n" .. prompt(open)) end
    local ok, why = with_session(show_pause, function(open) serve(open, read, write) end)
    return ok and "" or why
  end

  local adapter

  --- `listen{ addr =, wait = }` → listener, or nil, err: the Debug Adapter Protocol for one client
  --- at a time; with `wait` it returns once a client has set its breakpoints.
  function module.listen(options)
    adapter = adapter or raw.adapter {
      with_session = with_session,
      insert = insert,
      remove = remove,
      continue = continue,
      pause_next = pause_next,
      path_of = path_of,
      absolute = raw.absolute,
      --- Coroutines pause when they fail, if `is_set`.
      pause_failures = function(is_set) raw.on_failure(is_set and on_failure or nil) end,
    }
    return adapter.listen(options)
  end

  return module
end
