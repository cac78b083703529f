-- An HTTP API with JSON: notes, kept in memory.
--
--   tidegate run examples/lua/api.lua --listen=127.0.0.1:8000
--   curl -d '{"text":"buy milk"}' http://127.0.0.1:8000/notes
--   curl http://127.0.0.1:8000/notes/1

local env = require "silly.env"
local http = require "silly.net.http"
local json = require "silly.encoding.json"
local logger = require "silly.logger"

local NOTES_MAX = 10000
local PAGE = 100
local BODY_MS = 5000

local notes, count, last = {}, 0, 0

-- What a handler raises to answer with something else than success.
local function refuse(status, why)
  error({ status = status, why = why }, 0)
end

local function known(id)
  return notes[math.tointeger(tonumber(id))] or refuse(404, "there is no such note")
end

local function sent(stream)
  local body = stream:readall(BODY_MS) or refuse(400, "the body did not come")
  local value, why = json.decode(body)
  if why or type(value) ~= "table" or type(value.text) ~= "string" then
    refuse(400, why or "expected an object with a text")
  end
  return value.text
end

local routes = {
  ["GET /notes"] = function(stream)
    local from = math.tointeger(tonumber(stream.query.from)) or 1
    local page, to = {}, math.min(last, from + PAGE - 1)
    for id = from, to do
      page[#page + 1] = notes[id]
    end
    return 200, { notes = page, count = count, next = to < last and to + 1 or nil }
  end,
  ["POST /notes"] = function(stream)
    if count >= NOTES_MAX then
      refuse(507, "there are too many notes")
    end
    local text = sent(stream)
    last, count = last + 1, count + 1
    notes[last] = { id = last, text = text }
    return 201, notes[last], "/notes/" .. last
  end,
  ["GET /notes/"] = function(_, id)
    return 200, known(id)
  end,
  ["PUT /notes/"] = function(stream, id)
    local note = known(id)
    note.text = sent(stream)
    return 200, note
  end,
  ["DELETE /notes/"] = function(_, id)
    notes[known(id).id], count = nil, count - 1
    return 200, { deleted = true }
  end,
}

local function handler(stream)
  local place, id = stream.path:match("^(/notes/?)(%d*)$")
  local route = place and routes[stream.method .. " " .. place]
  local done, status, value, location
  if route then
    done, status, value, location = pcall(route, stream, id)
  else
    done, status = false, { status = 404, why = "there is nothing here" }
  end
  if not done then
    if type(status) ~= "table" then
      logger.error(stream.method, stream.path, status)
      status = { status = 500, why = "something went wrong" }
    end
    value, status = { error = status.why }, status.status
  end
  local body = json.encode(value)
  stream:respond(status, {
    ["content-type"] = "application/json",
    ["content-length"] = #body,
    ["location"] = location,
  })
  stream:closewrite(body)
end

local listener, why = http.listen { addr = env.get("listen") or "127.0.0.1:8000", handler = handler }
if not listener then
  error("cannot listen: " .. why)
end
logger.info("the API listens on", listener.addr)
