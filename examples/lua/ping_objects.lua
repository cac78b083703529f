-- The same as ping.lua in the style with objects.
--
--   tidegate run examples/lua/ping_objects.lua
--   redis-benchmark -t ping -c 100 -n 100000

local tcp = require "silly.net.tcp"

local answers = {
  ["PING\r\n"] = "+PONG\r\n",
  ["save\r\n"] = "*2\r\n$4\r\nsave\r\n$0\r\n\r\n",
  ["appendonly\r\n"] = "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n",
}

tcp.listen {
  addr = "127.0.0.1:6379",
  accept = function(conn)
    while true do
      local line, err = conn:read("\n")
      if err then
        conn:close()
        return
      end
      local answer = answers[line]
      if answer then
        conn:write(answer)
      end
    end
  end,
}
