-- `console`: commands that inspect a running program. Off unless a program opens it.
return function()
  local tcp = require "silly.net.tcp"
  local task = require "silly.task"
  local time = require "silly.time"
  local silly = require "silly"
  local LINE_BYTES = 64 * 1024

  local commands = {}

  function commands.HELP()
    local names = {}
    for name in pairs(commands) do names[#names + 1] = name end
    names[#names + 1] = "DEBUG"
    table.sort(names)
    return table.concat(names, " ")
  end

  function commands.PING(_, text)
    return text or "PONG"
  end

  function commands.GC()
    local before = collectgarbage("count")
    collectgarbage("collect")
    return ("%.0f KiB before, %.0f KiB now"):format(before, collectgarbage("count"))
  end

  function commands.INFO()
    local running = 0
    for _ in pairs(task.inspect()) do running = running + 1 end
    local process = ("pid %d\nversion %s\nuptime %d ms\nmemory %.0f KiB\ntasks %d\nready %d\n"):format(
      silly.pid, silly.tidegate, time.monotonic(), collectgarbage("count"), running,
      task.readycount())
    return process .. require "silly.metrics.prometheus".gather()
  end

  function commands.TASK()
    local lines = {}
    for thread, facts in pairs(task.inspect()) do
      lines[#lines + 1] = tostring(thread) .. " " .. facts.status .. "\n" .. facts.traceback
    end
    return table.concat(lines, "\n")
  end

  --- `INJECT file`: runs a file in the program and shows its results.
  function commands.INJECT(_, file)
    if not file then return nil, "INJECT needs a file" end
    local chunk, why = loadfile(file)
    if not chunk then return nil, why end
    local results = table.pack(pcall(chunk))
    for at = 1, results.n do results[at] = tostring(results[at]) end
    return table.concat(results, " ", 1, results.n)
  end

  --- `PROFILE cpu|allocations seconds file`: records a profile.
  function commands.PROFILE(_, kind, seconds, file)
    local ms = math.tointeger(tonumber(seconds) and tonumber(seconds) * 1000)
    if kind ~= "cpu" and kind ~= "allocations" or not ms or not file then
      return nil, "PROFILE needs cpu or allocations, seconds, and a file that ends in .pb.gz, .svg or .folded"
    end
    local profiler = require "silly.profiler"
    local format, why = profiler.format(file)
    if not format then return nil, why end
    local profile
    profile, why = profiler[kind](ms)
    if not profile then return nil, why end
    local ok
    ok, why = profiler.write(profile, file)
    if not ok then return nil, why end
    return ("%d samples in %s"):format(profile:samples(), file)
  end

  --- `TIMELINE seconds file`: records when each coroutine runs.
  function commands.TIMELINE(_, seconds, file)
    local ms = math.tointeger(tonumber(seconds) and tonumber(seconds) * 1000)
    if not ms or not file then return nil, "TIMELINE needs seconds and a file" end
    local out, text, why
    out, why = io.open(file, "wb")
    if not out then return nil, why end
    text, why = require "silly.profiler".timeline(ms)
    if text then out:write(text) end
    out:close()
    if not text then return nil, why end
    return ("%d bytes in %s"):format(#text, file)
  end

  --- `SOCKET number`: a socket of `net`.
  function commands.SOCKET(_, number)
    local fd = math.tointeger(tonumber(number))
    if not fd then return nil, "SOCKET needs the number of a socket of net" end
    local facts = require "silly.net".describe(fd)
    if not facts then return nil, "there is no socket " .. fd end
    return ("%s\naddress %s\nunsent %d bytes\nreading %s"):format(
      facts.kind, facts.addr, facts.unsent, facts.reading and "yes" or "paused")
  end

  --- A session of the debugger over the console's connection.
  local function debug_session(conn)
    local function read() return (conn:read("\n")) end
    return require "silly.debugger".start(read, function(text) return conn:write(text) end)
  end

  --- The text to print; nil ends the console.
  local function answer(custom, line, conn)
    local words = {}
    for word in line:gmatch("%S+") do words[#words + 1] = word end
    local name = (words[1] or ""):upper()
    if name == "" then return "" end
    local command = custom[name] or commands[name]
    if not command and name == "DEBUG" then return debug_session(conn) end
    if not command then return "no command " .. name .. "; HELP lists them" end
    local ok, result, why = pcall(command, conn, table.unpack(words, 2))
    if not ok then return "error: " .. tostring(result) end
    if result == nil then return why and "error: " .. tostring(why) end
    return type(result) == "table" and table.concat(result, "\n") or tostring(result)
  end

  local function talk(custom, conn)
    conn:limit(LINE_BYTES)
    conn:write("Tidegate console. HELP lists the commands.\n> ")
    while true do
      local line = conn:read("\n")
      if not line then break end
      local name = line:match("%S+")
      if name and (name:upper() == "QUIT" or name:upper() == "EXIT") then break end
      local text = answer(custom, line, conn)
      if not text then break end
      conn:write(text .. "\n> ")
    end
    conn:close()
  end

  --- `console{ addr =, cmd = { NAME = fn } }` → listener, or nil, err. A client of the console controls
  --- the program, so only a Unix socket is allowed.
  local function open(_, options)
    if type(options) ~= "table" or type(options.addr) ~= "string" then
      error("bad argument #1 to 'console' (a table with addr expected)", 2)
    end
    if options.addr:sub(1, 5) ~= "unix:" then
      return nil, "a console listens on a Unix socket only: addr = \"unix:/path\""
    end
    local custom = {}
    for name, command in pairs(options.cmd or {}) do custom[name:upper()] = command end
    return tcp.listen { addr = options.addr, accept = function(conn) talk(custom, conn) end }
  end

  return setmetatable({}, { __call = open })
end
