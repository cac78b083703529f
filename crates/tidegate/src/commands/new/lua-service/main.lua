-- SERVICE: an HTTP API with JSON.
--
--   tidegate run main.lua
--   tidegate run main.lua --listen=:80 --notes_max=10

local env = require "silly.env"
local http = require "silly.net.http"
local logger = require "silly.logger"
local api = require "api"

-- What the command line sets stays.
local why = env.load(env.get "config" or "config.lua")
if why then error(why, 0) end

local listener, err = http.listen {
  addr = env.get "listen",
  handler = api.new { notes_max = math.tointeger(tonumber(env.get "notes_max")) },
}
if not listener then error(("cannot listen on %s: %s"):format(env.get "listen", err), 0) end
logger.info("SERVICE listens on", listener.addr)
