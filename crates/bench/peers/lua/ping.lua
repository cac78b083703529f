-- Answers the PING of RESP, inline or as an array, for a Lua interpreter with Silly's modules.
--
-- Usage: PROGRAM ping.lua --listen=ADDRESS:PORT. It reads lines, as the published page's program
-- does: of an array only the last line is the command. redis-benchmark asks for two settings before
-- it begins; both have no value.

local env = require "silly.env"
local tcp = require "silly.net.tcp"

local answers = {
  ["PING\r\n"] = "+PONG\r\n",
  ["save\r\n"] = "*2\r\n$4\r\nsave\r\n$0\r\n\r\n",
  ["appendonly\r\n"] = "*2\r\n$10\r\nappendonly\r\n$0\r\n\r\n",
}

tcp.listen {
  addr = env.get("listen"),
  accept = function(connection)
    while true do
      local line, why = connection:read("\n")
      if why or not line or line == "" then
        break
      end
      local answer = answers[line]
      if answer then
        connection:write(answer)
      end
    end
    connection:close()
  end,
}
