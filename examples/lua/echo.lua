-- Sends back what it receives.
--
--   tidegate run examples/lua/echo.lua --listen=127.0.0.1:7000
--   nc 127.0.0.1 7000

local env = require "silly.env"
local logger = require "silly.logger"
local tcp = require "silly.net.tcp"

local PATIENCE_MS = 60000

local listener, why = tcp.listen {
  addr = env.get("listen") or "127.0.0.1:7000",
  accept = function(conn)
    while true do
      local data = conn:readall(16384, PATIENCE_MS)
      if not data then
        break
      end
      conn:write(data)
      -- A peer that sends and never reads waits here, not in our memory.
      conn:flush()
    end
    conn:close()
  end,
}
if not listener then
  error("cannot listen: " .. why)
end
logger.info("echo listens on", listener.addr)
