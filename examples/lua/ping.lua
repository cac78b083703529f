-- The program of the published benchmark, in the style with functions: PING of RESP, inline or as
-- an array. It reads lines, and of an array only the last line is the command.
--
--   tidegate run examples/lua/ping.lua
--   redis-benchmark -t ping -c 100 -n 100000

local tcp = require "silly.net.tcp"

local answers = {
  ["PING\r\n"] = "+PONG\r\n",
  -- What redis-benchmark asks for before it begins.
  ["save\r\n"] = "*2\r\n$4\r\nsave\r\n$0\r\n\r\n",
  ["appendonly\r\n"] = "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n",
}

tcp.listen("127.0.0.1:6379", function(fd, addr)
  while true do
    local line = tcp.readline(fd, "\r\n")
    if not line then
      tcp.close(fd)
      return
    end
    local answer = answers[line]
    if answer then
      tcp.write(fd, answer)
    end
  end
end)
