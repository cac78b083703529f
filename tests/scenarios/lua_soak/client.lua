-- The clients of the soak of modules: they come and go, in good order and in bad, for some seconds.
-- The program fails if a response is wrong, or if it grows itself.

local cluster = require "silly.net.cluster"
local env = require "silly.env"
local errno = require "silly.errno"
local http = require "silly.net.http"
local redis = require "silly.store.redis"
local silly = require "silly"
local time = require "silly.time"
local tls = require "silly.net.tls"
local waitgroup = require "silly.sync.waitgroup"
local websocket = require "silly.net.websocket"

local CLIENTS = 8
-- Allocators keep some of what they once needed: less than this is not growth.
local GROWTH_KIB, RESIDENT_GROWTH_KIB = 256, 8192
-- Longer than a busy machine needs.
local LONG_MS = 60000
-- A call that fails has no response: its caller waits for this time-out.
local CALL_MS = 1000

local function content(name)
  local file <close> = assert(io.open(env.get(name), "rb"))
  return file:read("a")
end

local function resident()
  for line in io.lines("/proc/self/status") do
    local kib = line:match("^RssAnon:%s+(%d+)")
    if kib then
      return tonumber(kib)
    end
  end
end

local ca = content("ca")
local db = env.get("redis") and redis.new { addr = env.get("redis"), timeout = LONG_MS }

cluster.serve {
  timeout = CALL_MS,
  marshal = function(_, command, data) return command, data end,
  unmarshal = function(_, _, data) return data end,
  call = function() return "" end,
}
local peer = cluster.connect(env.get("cluster"))

local function connect(hostname)
  return tls.connect(env.get("tls"), { hostname = hostname, ca = ca, timeout = LONG_MS })
end

local kinds = {}

function kinds.tls(number)
  local conn = assert(connect("localhost"))
  for _ = 1, number % 4 do
    conn:write("a line\n")
    assert(conn:read("\n", LONG_MS) == "a line\n")
  end
  -- An error of the server, half a line; and an end that the collector brings.
  conn:write(number % 3 == 0 and "fail\n" or number % 3 == 1 and "half a l" or "")
  if number % 2 == 0 then
    conn:close()
  end
end

function kinds.refused()
  local conn, why = connect("another")
  assert(not conn and why == errno.TLS)
end

function kinds.websocket(number)
  local socket = assert(websocket.connect("ws://" .. env.get("http") .. "/socket"))
  for at = 1, number % 4 do
    local text = ("x"):rep(at * 20000)
    socket:write(text, "text")
    assert(socket:read(LONG_MS) == text)
  end
  socket:write(number % 3 == 0 and "fail" or "no response is read", "text")
  if number % 2 == 0 then
    socket:close()
  end
end

function kinds.http(number)
  local url = "http://" .. env.get("http") .. "/"
  local response = assert(http.post(url, nil, number % 5 == 0 and "fail" or "body"))
  assert(response.status == (number % 5 == 0 and 500 or 200))
end

function kinds.cluster(number)
  local text = ("y"):rep(number % 7 * 1000)
  local response, why = cluster.call(peer, 1, number % 20 == 0 and "fail" or text)
  if number % 20 == 0 then
    assert(not response)
  else
    -- Another client may have closed the connection.
    assert(response == text or why == errno.CLOSED or why == "timeout", why)
  end
  if number % 10 == 0 then
    cluster.close(peer)
  end
end

function kinds.redis(number)
  if not db then
    return
  end
  local key = "key " .. number % 10
  assert(db:set(key, number))
  assert(#assert(db:pipeline { { "get", key }, { "nonsense" } }) == 4)
  if number % 10 == 0 then
    local own <close> = redis.new { addr = env.get("redis"), timeout = LONG_MS }
    local news = assert(own:subscribe("news"))
    assert(db:publish("news", "now"))
    assert(news:read(LONG_MS))
    news:close()
  end
end

local names = {}
for name in pairs(kinds) do
  names[#names + 1] = name
end
table.sort(names)

local visits = 0
local function load(ms)
  local group, over = waitgroup.new(), time.monotonic() + ms
  for client = 1, CLIENTS do
    group:fork(function()
      local number = client
      while time.monotonic() < over do
        local ok, why = silly.pcall(kinds[names[number % #names + 1]], number // #names)
        if not ok then
          io.stderr:write("a visit failed: ", why, "\n")
          os.exit(1)
        end
        number, visits = number + 1, visits + 1
      end
    end)
  end
  group:wait()
  collectgarbage()
  collectgarbage()
end

local ms = tonumber(env.get("seconds")) * 1000
load(ms // 2)
local lua, process = collectgarbage("count"), resident()
load(ms - ms // 2)
local lua_growth, growth = collectgarbage("count") - lua, resident() - process
print(("RESULT %d visits, of Lua %+.0f KiB, resident %+d KiB"):format(visits, lua_growth, growth))
silly.exit((lua_growth < GROWTH_KIB and growth < RESIDENT_GROWTH_KIB) and 0 or 3)
