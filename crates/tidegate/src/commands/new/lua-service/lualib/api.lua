-- The API: notes, kept in memory.
local json = require "silly.encoding.json"
local logger = require "silly.logger"

local BODY_MS = 5000

local api = {}

--- What a route raises to respond with an error.
local function refuse(status, reason)
  error({ status = status, reason = reason }, 0)
end

local function body_of(stream)
  local body = stream:readall(BODY_MS) or refuse(408, "the body did not arrive")
  local value, why = json.decode(body)
  if type(value) ~= "table" or type(value.text) ~= "string" then
    refuse(400, why or "an object with a text was expected")
  end
  return value
end

--- Returns the handler of HTTP requests.
---@param options { notes_max: integer }
---@return fun(stream: silly.net.http.ServerStream)
function api.new(options)
  local notes, count, last = {}, 0, 0

  local routes = {}

  routes["GET /healthz"] = function()
    return 200, { status = "ok" }
  end

  routes["POST /notes"] = function(stream)
    local text = body_of(stream).text
    if count >= options.notes_max then refuse(507, "there are too many notes") end
    last, count = last + 1, count + 1
    notes[last] = { id = last, text = text }
    return 201, notes[last]
  end

  routes["GET /notes/"] = function(_, id)
    return 200, notes[id] or refuse(404, "there is no such note")
  end

  routes["DELETE /notes/"] = function(_, id)
    if not notes[id] then refuse(404, "there is no such note") end
    notes[id], count = nil, count - 1
    return 204
  end

  return function(stream)
    local place, id = stream.path:match "^(.-/?)(%d*)$"
    local route = routes[stream.method .. " " .. place]
    local ok, status, value = pcall(route or refuse, route and stream or 404, math.tointeger(tonumber(id)))
    if not ok then
      local err = status
      if type(err) ~= "table" then
        logger.error(stream.method, stream.path, err)
        err = { status = 500 }
      end
      status, value = err.status, { error = type(err.reason) == "string" and err.reason or "not found" }
    end
    stream:respond(status, value and { ["content-type"] = "application/json" } or {})
    stream:closewrite(value and json.encode(value) or "")
  end
end

return api
