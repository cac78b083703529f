-- The Debug Adapter Protocol (https://microsoft.github.io/debug-adapter-protocol) of `debugger`: one
-- client at a time, which controls the program, on loopback or a Unix socket.
--
-- Messages, breakpoints and the entries of a response are bounded. A client that vanishes ends the
-- session, and the paused task continues.
return function(engine, values, breakpoints)
  local json, logger = require "silly.encoding.json", require "silly.logger"
  local tcp, task, errno = require "silly.net.tcp", require "silly.task", require "silly.errno"

  local HEADER_LINES, HEADER_BYTES, MESSAGE_BYTES = 16, 512, 1024 * 1024
  local BREAKPOINTS, REFERENCES, ENTRIES, FRAMES, THREADS = 1000, 100000, 1000, 1000, 1000
  -- Log points are dropped while the client has this much to read.
  local UNSENT_BYTES = 1024 * 1024
  local REFUSAL_MS = 5000

  local adapter = {}

  --- The next message of a connection; nil at its end; nil and a reason if it is malformed.
  function adapter.read_message(conn)
    local length
    for _ = 1, HEADER_LINES do
      local line, why = conn:read "\n"
      if why == errno.MSGSIZE or line and #line > HEADER_BYTES then
        return nil, "a header line is too long"
      end
      if not line then return nil end
      line = line:gsub("\r?\n$", "")
      if line == "" then
        if not length then return nil, "a message has no Content-Length" end
        local text = length > 0 and conn:read(length) or ""
        if not text then return nil end
        -- Responses repeat what a client sends (RFC 8259, section 8.1).
        if not utf8.len(text) then return nil, "a message is not UTF-8" end
        local message
        message, why = json.decode(text)
        if type(message) ~= "table" then return nil, "a message is not a JSON object: " .. (why or "") end
        return message
      end
      local name, value = line:match "^([%w-]+): *(.-) *$"
      if not name then return nil, "a line is not a header" end
      if name:lower() == "content-length" then
        length = value:find "^%d+$" and #value < 10 and tonumber(value)
        if not length or length > MESSAGE_BYTES then
          return nil, ("a Content-Length is not between 0 and %d"):format(MESSAGE_BYTES)
        end
      end
    end
    return nil, "a message has too many header lines"
  end

  local function send(client, message)
    client.seq = client.seq + 1
    message.seq = client.seq
    local text = assert(json.encode(message))
    client.conn:write { "Content-Length: ", tostring(#text), "\r\n\r\n", text }
  end

  local function send_event(client, event, body)
    send(client, { type = "event", event = event, body = body })
  end

  local function output(client, text)
    if client.conn:unsentbytes() > UNSENT_BYTES then
      client.dropped = client.dropped + 1
      return
    end
    if client.dropped > 0 then
      text = ("[%d messages were dropped: the client reads too slowly]\n%s"):format(client.dropped, text)
      client.dropped = 0
    end
    send_event(client, "output", { category = "console", output = values.plain(text) .. "\n" })
  end

  --- Fails a request.
  local function refuse(text) error(text, 0) end

  local function paused(client)
    return client.open.paused or refuse "no task is paused"
  end

  --- The number of a thread.
  local function id_of(client, thread)
    local id = client.ids[thread]
    if not id then
      id = client.last_id + 1
      client.last_id, client.ids[thread] = id, id
    end
    return id
  end

  --- Numbers of frames and variables are valid until the task continues.
  local function forget_pause(client) client.frames, client.references = {}, {} end

  local function refer(client, kind, value, frame)
    local references = client.references
    if #references == REFERENCES then return 0 end
    references[#references + 1] = { kind = kind, value = value, frame = frame }
    return #references
  end

  --- A value as a response has it, in `into`.
  local function shown(client, value, into)
    into.type, into.variablesReference = type(value), 0
    if type(value) == "table" then
      local indexed, named = values.count(value)
      into.indexedVariables, into.namedVariables = indexed, named
      if indexed + named > 0 then into.variablesReference = refer(client, "table", value) end
    end
    return into
  end

  local function set_breakpoint(client, path, lines, wanted)
    local line = math.tointeger(wanted.line)
    if not line then refuse "a breakpoint has no line" end
    local at = breakpoints.code_line(lines, line + client.line_offset)
    if not at then return { verified = false, line = line, message = "the file has no code there" } end
    if client.point_count == BREAKPOINTS then refuse(("there are %d breakpoints"):format(BREAKPOINTS)) end
    local decides, why = breakpoints.decision(wanted, function(text) output(client, text) end)
    if not decides then return { verified = false, line = line, message = values.plain(why) } end
    local id = engine.insert(client.open, { line = at, path = path, passes = decides })
    client.point_count = client.point_count + 1
    table.insert(client.points[path], id)
    return { verified = true, id = id, line = at - client.line_offset }
  end

  -- Each takes the arguments of its request and returns the body of the response, and a function that
  -- is called after it was sent.
  local requests = {}

  function requests.initialize(client, arguments)
    if client.is_initialized then refuse "the session is initialized" end
    client.is_initialized = true
    client.line_offset = arguments.linesStartAt1 == false and 1 or 0
    return {
      supportsConfigurationDoneRequest = true,
      supportsConditionalBreakpoints = true,
      supportsHitConditionalBreakpoints = true,
      supportsLogPoints = true,
      supportsEvaluateForHovers = true,
      supportsExceptionInfoRequest = true,
      supportsTerminateRequest = true,
      supportTerminateDebuggee = true,
      exceptionBreakpointFilters = { { filter = "uncaught", label = "Uncaught errors", default = true } },
    }, function() send_event(client, "initialized") end
  end

  -- The program runs: to launch and to attach are the same.
  function requests.attach(client, arguments)
    if arguments.stopOnEntry == true then client.stops_on_entry = true end
  end
  requests.launch = requests.attach

  function requests.setBreakpoints(client, arguments)
    local source = type(arguments.source) == "table" and arguments.source.path
    if type(source) ~= "string" then refuse "a source without a path has no breakpoints" end
    local wanted = type(arguments.breakpoints) == "table" and arguments.breakpoints or {}
    local path = engine.absolute(source)
    for _, id in ipairs(client.points[path] or {}) do
      engine.remove(client.open, id)
      client.point_count = client.point_count - 1
    end
    client.points[path] = #wanted > 0 and {} or nil
    local lines, why = breakpoints.lines_of(path)
    local list = {}
    for at, one in ipairs(wanted) do
      list[at] = lines and set_breakpoint(client, path, lines, one)
        or { verified = false, message = values.plain(why) }
    end
    return { breakpoints = list }
  end

  function requests.setExceptionBreakpoints(_, arguments)
    local is_set = false
    for _, filter in ipairs(type(arguments.filters) == "table" and arguments.filters or {}) do
      if filter ~= "uncaught" then refuse("there is no exception filter " .. tostring(filter) .. ": uncaught") end
      is_set = true
    end
    engine.pause_failures(is_set)
  end

  function requests.configurationDone(client)
    return nil, function()
      if client.stops_on_entry then engine.pause_next(client.open, "any", "entry") end
      client.stops_on_entry = nil
      client.configured()
    end
  end

  --- The line of the program that a task is in.
  local function place_of(traceback)
    for place in traceback:gmatch "\n%s*([^\n%[]-:%d+):" do
      if place:sub(1, 9) ~= "tidegate/" then return place end
    end
    return ""
  end

  function requests.threads(client)
    local list = {}
    for thread, facts in pairs(task.inspect()) do
      if #list == THREADS then break end
      if thread ~= client.open.thread then
        local status = thread == client.open.paused and "PAUSED" or facts.status
        list[#list + 1] = { id = id_of(client, thread), name = values.plain(status .. " " .. place_of(facts.traceback)) }
      end
    end
    table.sort(list, function(a, b) return a.id < b.id end)
    return { threads = list }
  end

  local function frame_of(client, thread, level)
    local info = debug.getinfo(thread, level, "Slnf")
    if not info then return nil end
    client.frames[#client.frames + 1] = { thread = thread, level = level, fn = info.func }
    local path = engine.path_of(info.source)
    local source = { name = values.plain((path or info.short_src):match "[^/]*$") }
    if path then
      source.path = values.plain(path)
    else
      source.presentationHint = "deemphasize"
    end
    return {
      id = #client.frames,
      name = values.plain(info.name or (info.what == "main" and "main chunk") or "function"),
      source = source,
      line = info.currentline > 0 and info.currentline - client.line_offset or 0,
      column = client.line_offset == 0 and 1 or 0,
      presentationHint = info.what == "C" and "subtle" or nil,
    }
  end

  function requests.stackTrace(client, arguments)
    local thread = paused(client)
    if arguments.threadId ~= id_of(client, thread) then refuse "the task is not paused" end
    local first = math.tointeger(arguments.startFrame) or 0
    local levels = math.tointeger(arguments.levels) or 0
    if levels <= 0 or levels > FRAMES then levels = FRAMES end
    local list = {}
    -- By halves: each look walks down from the top, and an endless recursion has many levels.
    local deepest, beyond = -1, 1
    while debug.getinfo(thread, beyond, "l") do deepest, beyond = beyond, beyond * 2 end
    while beyond - deepest > 1 do
      local middle = (deepest + beyond) // 2
      if debug.getinfo(thread, middle, "l") then deepest = middle else beyond = middle end
    end
    local total = beyond
    for level = first, math.min(first + levels, total) - 1 do
      list[#list + 1] = frame_of(client, thread, level)
    end
    return { stackFrames = list, totalFrames = total }
  end

  function requests.scopes(client, arguments)
    local frame = client.frames[arguments.frameId] or refuse "the frame is no longer valid"
    local function scope(name, kind, is_expensive)
      return {
        name = name,
        variablesReference = refer(client, kind, nil, frame),
        expensive = is_expensive,
        presentationHint = kind == "locals" and kind or nil,
      }
    end
    return { scopes = {
      scope("Locals", "locals", false),
      scope("Upvalues", "upvalues", false),
      scope("Globals", "globals", true),
    } }
  end

  function requests.variables(client, arguments)
    local found = client.references[arguments.variablesReference] or refuse "the variables are no longer valid"
    local first = math.max(math.tointeger(arguments.start) or 0, 0)
    local count = math.tointeger(arguments.count) or 0
    if count <= 0 or count > ENTRIES then count = ENTRIES end
    local entries
    if found.kind == "table" or found.kind == "globals" then
      local of = found.kind == "table" and found.value or values.globals(found.frame)
      entries = type(of) == "table" and values.entries(of, arguments.filter, first, count) or {}
    else
      entries = table.move(values[found.kind](found.frame), first + 1, first + count, 1, {})
    end
    local list = {}
    for at, entry in ipairs(entries) do
      list[at] = shown(client, entry[2], { name = entry[1], value = values.show(entry[2]) })
    end
    return { variables = list }
  end

  function requests.evaluate(client, arguments)
    if type(arguments.expression) ~= "string" then refuse "there is no expression" end
    local frame = arguments.frameId
    frame = type(frame) == "number" and (client.frames[frame] or refuse "the frame is no longer valid") or nil
    local results = table.pack(values.evaluate(arguments.expression, frame))
    if not results[1] then refuse(values.plain(tostring(results[2]))) end
    local texts = {}
    for at = 2, results.n do texts[#texts + 1] = values.show(results[at]) end
    return shown(client, results[2], { result = table.concat(texts, ", ") })
  end

  local function continuing(mode)
    return function(client)
      paused(client)
      return mode == nil and { allThreadsContinued = false } or nil, function()
        forget_pause(client)
        if client.open.paused then engine.continue(client.open, mode) end
      end
    end
  end
  requests.continue, requests.next = continuing(), continuing "n"
  requests.stepIn, requests.stepOut = continuing "s", continuing "o"

  function requests.pause(client, arguments)
    if client.open.paused then refuse "a task is paused" end
    for thread, id in pairs(client.ids) do
      if id == arguments.threadId then return engine.pause_next(client.open, thread, "pause") end
    end
    refuse "there is no such task"
  end

  function requests.exceptionInfo(client)
    local thread, why = paused(client), client.open.failure
    if not why then refuse "the task has not failed" end
    return {
      exceptionId = "error",
      description = values.plain(why),
      breakMode = "unhandled",
      details = { message = values.plain(why), stackTrace = values.plain(debug.traceback(thread, nil, 0)) },
    }
  end

  function requests.disconnect(client, arguments)
    return nil, function()
      client.is_over = true
      if arguments.terminateDebuggee == true then require "silly".exit(0) end
    end
  end

  function requests.terminate()
    return nil, function() require "silly".exit(0) end
  end

  local function respond(client, request)
    local response = { type = "response", request_seq = request.seq, command = request.command, success = true }
    local arguments = type(request.arguments) == "table" and request.arguments or {}
    local handler = requests[request.command]
    local ok, body, after
    if not handler then
      ok, body = false, "there is no request " .. values.plain(request.command)
    elseif not client.is_initialized and request.command ~= "initialize" then
      ok, body = false, "the session is not initialized"
    else
      ok, body, after = pcall(handler, client, arguments)
    end
    if ok then
      response.body = body
    else
      response.success, response.message = false, values.plain(tostring(body))
    end
    send(client, response)
    if ok and after then after() end
  end

  --- True if a message is a request.
  local function is_request(message)
    return message.type == "request" and math.type(message.seq) == "integer"
      and type(message.command) == "string"
  end

  local function new_client(conn, configured)
    return {
      conn = conn,
      configured = configured,
      seq = 0,
      dropped = 0,
      line_offset = 0,
      points = {},
      point_count = 0,
      ids = setmetatable({}, { __mode = "k" }),
      last_id = 0,
      frames = {},
      references = {},
    }
  end

  local function show_pause(client)
    return function(open, reason, points)
      forget_pause(client)
      send_event(client, "stopped", {
        reason = reason,
        threadId = id_of(client, open.paused),
        allThreadsStopped = false,
        hitBreakpointIds = points,
        text = open.failure and values.plain(open.failure) or nil,
      })
    end
  end

  --- Serves a client to its end; `configured` is called when it has set its breakpoints. Returns nil
  --- and the reason if another session is open.
  function adapter.serve(conn, configured)
    local client = new_client(conn, configured)
    return engine.with_session(show_pause(client), function(open)
      client.open = open
      while not client.is_over do
        local message, why = adapter.read_message(conn)
        if message and not is_request(message) then
          message, why = nil, "a message is not a request"
        end
        if not message then
          if why then logger.error("[debugger] a client is disconnected:", why) end
          return
        end
        respond(client, message)
      end
    end)
  end

  --- Tells a client why there is no session for it.
  local function turn_away(conn, why)
    conn:deadline(REFUSAL_MS)
    local message = adapter.read_message(conn)
    if message and is_request(message) then
      send({ conn = conn, seq = 0 }, {
        type = "response",
        request_seq = message.seq,
        command = message.command,
        success = false,
        message = why,
      })
    end
  end

  local function is_local(addr)
    return addr:find "^unix:" or addr:find "^127%.%d+%.%d+%.%d+:%d+$" or addr:find "^%[::1%]:%d+$"
  end

  function adapter.listen(options)
    if type(options) ~= "table" or type(options.addr) ~= "string" then
      error("bad argument #1 to 'listen' (a table with addr expected)", 3)
    end
    if not is_local(options.addr) then
      return nil, "a debugger listens on loopback or a Unix socket only, because its client controls the "
        .. "program: 127.0.0.1:4711"
    end
    local waiter = options.wait and task.running()
    local function configured()
      local thread = waiter
      waiter = nil
      if thread then task.wakeup(thread) end
    end
    local listener, why = tcp.listen {
      addr = options.addr,
      accept = function(conn)
        conn:limit(MESSAGE_BYTES)
        conn:linelimit(HEADER_BYTES)
        local ok, refusal = adapter.serve(conn, configured)
        if not ok then turn_away(conn, refusal) end
        conn:close()
      end,
    }
    if not listener then return nil, why end
    logger.info("[debugger] listens on", listener.addr, waiter and "and waits for a client" or "")
    if waiter then task.wait() end
    return listener
  end

  return adapter
end
