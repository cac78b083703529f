-- The admin API of `tidegate run --admin`: profiles, as `tidegate ctl profile` requests them. Called with
-- `profile`; returns `listen(address)`.
return function(raw)
  local http, json = require "silly.net.http", require "silly.encoding.json"
  local PATH, SECONDS, SECONDS_MAX = "/v1/lua/profile", 10, 60
  local KINDS = { cpu = true, allocations = true }
  local TYPES = { pprof = "application/gzip", svg = "image/svg+xml", folded = "text/plain; charset=utf-8" }

  local function refuse(stream, status, detail)
    stream:respond(status, { ["content-type"] = "application/problem+json" })
    stream:closewrite(json.encode { status = status, detail = detail })
  end

  local function handle(stream)
    if stream.path ~= PATH then return refuse(stream, 404, "a Lua program has only " .. PATH) end
    if stream.method ~= "POST" then return refuse(stream, 405, stream.method .. " is not for " .. PATH) end
    local query = stream.query
    local kind, format = query.kind or "cpu", query.format or "pprof"
    local seconds = math.tointeger(tonumber(query.seconds or SECONDS))
    if not KINDS[kind] then return refuse(stream, 400, "kind: cpu or allocations expected") end
    if not TYPES[format] then return refuse(stream, 400, "format: pprof, svg or folded expected") end
    if not seconds or seconds < 1 or seconds > SECONDS_MAX then
      return refuse(stream, 400, "seconds: a number from 1 to " .. SECONDS_MAX .. " expected")
    end
    local profile, status, why = raw.profile(kind, seconds, format)
    if not profile then return refuse(stream, status, why) end
    stream:respond(200, { ["content-type"] = TYPES[format] })
    stream:closewrite(profile)
  end

  return { listen = function(address) return http.listen { addr = address, handler = handle } end }
end
