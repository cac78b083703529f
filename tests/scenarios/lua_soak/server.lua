-- The server of the soak of modules: TLS, HTTP, WebSocket and cluster, each of which uses Redis.

local cluster = require "silly.net.cluster"
local env = require "silly.env"
local http = require "silly.net.http"
local logger = require "silly.logger"
local redis = require "silly.store.redis"
local tcp = require "silly.net.tcp"
local tls = require "silly.net.tls"
local websocket = require "silly.net.websocket"

local db = env.get("redis") and redis.new { addr = env.get("redis"), timeout = 60000 }
local open = 0

local function content(name)
  local file <close> = assert(io.open(env.get(name), "rb"))
  return file:read("a")
end

local function count(what)
  if db then
    assert(db:incr(what))
  end
end

-- A connection counts as open until its coroutine ends, with an error too.
local function counted(fn)
  local closing = setmetatable({}, { __close = function() open = open - 1 end })
  return function(...)
    open = open + 1
    local _ <close> = closing
    return fn(...)
  end
end

local function hold(conn)
  while conn:read("\n") == "held\n" do
    collectgarbage()
    collectgarbage()
    conn:write(("%d %.1f\n"):format(open, collectgarbage("count")))
  end
end

local function echo(conn)
  local line = conn:read("\n", 60000)
  while line do
    if line == "fail\n" then
      error("as asked")
    end
    count("lines")
    conn:write(line)
    line = conn:read("\n", 60000)
  end
  -- Every second one is left to the collector.
  if open % 2 == 0 then
    conn:close()
  end
end

local function converse(stream)
  local socket = websocket.upgrade(stream)
  if not socket then
    return
  end
  while true do
    local data, kind = socket:read()
    if not data or kind == "close" then
      return
    elseif data == "fail" then
      error("as asked")
    elseif kind == "text" then
      count("messages")
      socket:write(data, "text")
    end
  end
end

local function respond(stream)
  if stream.path == "/socket" then
    return converse(stream)
  end
  local body = stream:readall()
  if body == "fail" then
    error("as asked")
  end
  count("requests")
  stream:respond(200)
  stream:closewrite(body)
end

cluster.serve {
  marshal = function(_, command, data) return command, data end,
  unmarshal = function(_, _, data) return data end,
  call = function(_, _, data)
    if data == "fail" then
      error("as asked")
    end
    count("calls")
    return data
  end,
}

local certs = { { cert = content("cert"), key = content("key") } }
local addresses = {
  tls = assert(tls.listen { addr = "127.0.0.1:0", certs = certs, accept = counted(echo) }).addr,
  http = assert(http.listen { addr = "127.0.0.1:0", handler = counted(respond) }).addr,
  cluster = assert(cluster.listen("127.0.0.1:0")).addr,
}
for name, addr in pairs(addresses) do
  logger.info("address of", name .. ":", addr)
end
logger.info("listens on", assert(tcp.listen("127.0.0.1:0", counted(hold))).addr)
