-- `tide.upstream` and `tide.route`: requests from within a server, and their answers.
return function(raw)
  local decode = require "tide.encoding.json".decode

  local OPTIONS = {
    method = "string", path = "string", target = "string", query = "string", headers = "table",
    body = "string", timeout = "number",
  }

  local Headers = {}
  function Headers.__index(headers, name)
    return type(name) == "string" and rawget(headers, name:lower()) or nil
  end

  local Body = {}
  Body.__index = Body

  --- `body:read([limit])`: all of it, decoded; `nil, err`.
  function Body:read(limit)
    if self.text or self.why then return self.text, self.why end
    local text, why = raw.take(self.raw, limit)
    if not text and not why then
      local errand <close> = raw.read(self.raw, limit)
      text, why = raw.wait(errand)
    end
    self.text, self.why = text, why
    return text, why
  end

  --- `body:json([limit])`
  function Body:json(limit)
    local text, why = self:read(limit)
    if not text then return nil, why end
    return decode(text)
  end

  local Answer = { __name = "answer" }
  Answer.__index = Answer

  --- `answer:close()`: drops the body.
  function Answer:close() return raw.close(self.raw) end
  Answer.__close = Answer.close

  local function wrong(name, index, what)
    error(("bad argument #%d to '%s' (%s)"):format(index, name, what), 4)
  end

  local function check(name, index, changes)
    if type(changes) ~= "table" then wrong(name, index, "table expected, got " .. type(changes)) end
    for key, value in pairs(changes) do
      local kind = OPTIONS[key]
      if not kind then wrong(name, index, ("unknown option '%s'"):format(tostring(key))) end
      if type(value) ~= kind and not (key == "query" and type(value) == "table") then
        wrong(name, index, ("%s: %s expected, got %s"):format(key, kind, type(value)))
      end
    end
    if type(changes.query) == "table" then
      local copy = {}
      for key, value in pairs(changes) do copy[key] = value end
      copy.query = require "tide.net.http.helper".urlencode(changes.query)
      return copy
    end
    return changes
  end

  local function send(name, upstream, given, changes)
    local parent
    if raw.is_request(given) then
      parent, changes = given, check(name, 2, changes or {})
    elseif upstream and type(given) == "table" then
      changes = check(name, 1, given)
    else
      wrong(name, 1, "a request expected, got " .. type(given))
    end
    local body = changes.body
    if parent and not body and not changes.method then
      local why
      body, why = parent.body:read()
      if not body then return nil, why end
    end
    local errand <close>, why = raw.send(name, upstream, parent, changes, body)
    if not errand then return nil, why end
    local status, headers, content = raw.wait(errand)
    if not status then return nil, headers, content end
    return setmetatable({
      status = status,
      headers = setmetatable(headers, Headers),
      body = setmetatable({ raw = content }, Body),
      raw = content,
    }, Answer)
  end

  local Upstream = { __name = "upstream" }
  Upstream.__index = Upstream

  --- `upstream:request(request[, changes])`, `upstream:request(changes)` → answer | nil, err[, status]
  function Upstream:request(given, changes)
    return send("request", self.raw, given, changes)
  end

  local made = {}

  --- `tide.upstream(name)` → upstream
  function made.upstream(name)
    if type(name) ~= "string" then
      error(("bad argument #1 to 'upstream' (string expected, got %s)"):format(type(name)), 2)
    end
    local upstream, why = raw.upstream(name)
    if not upstream then error(why, 2) end
    return setmetatable({ raw = upstream }, Upstream)
  end

  --- `tide.route(request[, changes])` → answer | nil, err[, status]
  function made.route(request, changes)
    return send("route", nil, request, changes)
  end

  --- `response:stream(answer)`
  function made.pass(response, answer, why)
    if getmetatable(answer) ~= Answer then
      local reason = why and ": " .. tostring(why) or ""
      error(("bad argument #1 to 'stream' (an answer expected, got %s%s)"):format(type(answer), reason), 2)
    end
    raw.pass(response, answer.raw)
  end

  return made
end
