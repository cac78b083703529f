-- `tide.upstream` and `tide.route`: subrequests of scripts, and their responses.
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
      local pending <close> = raw.read(self.raw, limit)
      text, why = raw.wait(pending)
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

  local Response = { __name = "response" }
  Response.__index = Response

  --- `response:close()`: drops the body.
  function Response:close() return raw.close(self.raw) end
  Response.__close = Response.close

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
    elseif type(given) == "table" then
      changes = check(name, 1, given)
      if not (upstream or changes.path or changes.target) then wrong(name, 1, "path or target expected") end
    else
      wrong(name, 1, "a request expected, got " .. type(given))
    end
    local body = changes.body
    if parent and not body and not changes.method then
      local why
      body, why = parent.body:read()
      if not body then return nil, why end
    end
    local pending <close>, why = raw.send(name, upstream, parent, changes, body)
    if not pending then return nil, why end
    local status, headers, content = raw.wait(pending)
    if not status then return nil, headers, content end
    return setmetatable({
      status = status,
      headers = setmetatable(headers, Headers),
      body = setmetatable({ raw = content }, Body),
      raw = content,
    }, Response)
  end

  local Upstream = { __name = "upstream" }
  Upstream.__index = Upstream

  --- `upstream:request(request[, changes])`, `upstream:request(changes)` → response | nil, err[, status]
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

  --- `tide.route(request[, changes])`, `tide.route(changes)` → response | nil, err[, status]
  function made.route(request, changes)
    return send("route", nil, request, changes)
  end

  --- `response:stream(subresponse)`
  function made.pass(response, subresponse, why)
    if getmetatable(subresponse) ~= Response then
      local reason = why and ": " .. tostring(why) or ""
      local what = type(subresponse) .. reason
      error(("bad argument #1 to 'stream' (a response of a subrequest expected, got %s)"):format(what), 2)
    end
    raw.pass(response, subresponse.raw)
  end

  return made
end
