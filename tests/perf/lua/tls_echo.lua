-- The echo over TLS that is compared with tls_echo.c.

local env = require "silly.env"
local tls = require "silly.net.tls"

local function content(name)
  local file <close> = assert(io.open(env.get(name), "rb"))
  return file:read("a")
end

local bytes = tonumber(env.get("bytes"))
local listener = assert(tls.listen {
  addr = env.get("listen"),
  certs = { { cert = content("certificate"), key = content("key") } },
  accept = function(conn)
    while true do
      local message = conn:read(bytes)
      if not message or message == "" then
        return conn:close()
      end
      conn:write(message)
    end
  end,
})
