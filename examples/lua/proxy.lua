-- Passes each connection on to another server. Two pipelines, one each way: a source that reads, a
-- stage that counts, a sink that writes and waits until its peer has taken what was written.
--
--   tidegate run examples/lua/proxy.lua --listen=127.0.0.1:7001 --to=127.0.0.1:80

local env = require "silly.env"
local logger = require "silly.logger"
local tcp = require "silly.net.tcp"
local waitgroup = require "silly.sync.waitgroup"

local PIECE_BYTES = 16384
local CONNECT_MS = 5000
local IDLE_MS = 300000

-- A stage is a function that returns the next piece, or nil at the end.
local function source(conn)
  return function()
    return conn:readall(PIECE_BYTES, IDLE_MS)
  end
end

local function counted(pull, total)
  return function()
    local piece = pull()
    total.bytes = total.bytes + #(piece or "")
    return piece
  end
end

local function drain(pull, conn)
  for piece in pull do
    if not (conn:write(piece) and conn:flush()) then
      return
    end
  end
  conn:closewrite()
end

local function pass(client, from)
  local target = assert(env.get("to"), "no --to=ADDRESS")
  local server, why = tcp.connect(target, { timeout = CONNECT_MS })
  if not server then
    logger.warn("cannot connect to", target, why)
    return client:close()
  end
  local up, down = { bytes = 0 }, { bytes = 0 }
  local both = waitgroup.new()
  both:fork(function()
    drain(counted(source(client), up), server)
  end)
  both:fork(function()
    drain(counted(source(server), down), client)
  end)
  both:wait()
  client:close()
  server:close()
  logger.info(from, "sent", up.bytes, "received", down.bytes)
end

local listener, why = tcp.listen { addr = env.get("listen") or "127.0.0.1:7001", accept = pass }
if not listener then
  error("cannot listen: " .. why)
end
logger.info("the proxy listens on", listener.addr)
