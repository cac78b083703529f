-- A cache that speaks the protocol of Redis: PING, ECHO, GET, SET (EX, PX, NX, XX), DEL, EXISTS,
-- EXPIRE, PEXPIRE, TTL, PTTL, INCR, DBSIZE, FLUSHALL. Keys go when their time is over, and the
-- oldest ones when there are too many.
--
--   tidegate run examples/lua/cache.lua --listen=127.0.0.1:6380 --keys=100000
--   redis-cli -p 6380 set greeting hello ex 60

local env = require "silly.env"
local list = require "silly.adt.list"
local logger = require "silly.logger"
local tcp = require "silly.net.tcp"
local time = require "silly.time"

local KEYS_MAX = tonumber(env.get("keys")) or 100000
local ARGUMENTS_MAX = 1024
local BYTES_MAX = 1024 * 1024
local SWEEP_MS = 1000
local SWEEP_KEYS = 1000

-- What is kept, when it ends, the keys in the order they came, and those that end.
local values, ends = {}, {}
local order, mortal = list.new(), list.new()

local function drop(key)
  if values[key] == nil then
    return 0
  end
  values[key] = nil
  order:remove(key)
  if ends[key] then
    ends[key] = nil
    mortal:remove(key)
  end
  return 1
end

local function get(key)
  local at = ends[key]
  if at and at <= time.monotonic() then
    drop(key)
  end
  return values[key]
end

local function set_end(key, at)
  if at and not ends[key] then
    mortal:pushback(key)
  elseif ends[key] and not at then
    mortal:remove(key)
  end
  ends[key] = at
end

local function set(key, value, at)
  if values[key] == nil then
    order:pushback(key)
  end
  values[key] = value
  set_end(key, at)
  while order:size() > KEYS_MAX do
    drop(order:front())
  end
end

-- Removes expired keys among the next few with an expiry, so that unused ones go as well.
local function sweep()
  for _ = 1, math.min(SWEEP_KEYS, mortal:size()) do
    local key = mortal:popfront()
    mortal:pushback(key)
    get(key)
  end
  time.after(SWEEP_MS, sweep)
end

local OK, NIL = "+OK\r\n", "$-1\r\n"

local function bulk(text)
  return text and "$" .. #text .. "\r\n" .. text .. "\r\n" or NIL
end

local function number(value)
  return ":" .. value .. "\r\n"
end

local function whole(text)
  local value = math.tointeger(tonumber(text))
  return value or error("-ERR value is not an integer or out of range\r\n", 0)
end

local function expire(key, ms)
  if get(key) == nil then
    return number(0)
  end
  set_end(key, time.monotonic() + ms)
  return number(1)
end

local function left(key, unit)
  if get(key) == nil then
    return number(-2)
  end
  local at = ends[key]
  return number(at and (at - time.monotonic() + unit - 1) // unit or -1)
end

local commands = {}

function commands.ping(text)
  return text and bulk(text) or "+PONG\r\n"
end

function commands.echo(text)
  return bulk(text)
end

function commands.get(key)
  return bulk(get(key))
end

function commands.set(key, value, ...)
  if not value then
    error("-ERR wrong number of arguments for 'set' command\r\n", 0)
  end
  local at, words = nil, { ... }
  local index = 1
  while words[index] do
    local word = words[index]:upper()
    if word == "EX" or word == "PX" then
      local span = whole(words[index + 1]) * (word == "EX" and 1000 or 1)
      at, index = time.monotonic() + span, index + 2
    elseif word == "NX" or word == "XX" then
      if (get(key) ~= nil) ~= (word == "XX") then
        return NIL
      end
      index = index + 1
    else
      error("-ERR syntax error\r\n", 0)
    end
  end
  set(key, value, at)
  return OK
end

function commands.del(...)
  local dropped = 0
  for _, key in ipairs({ ... }) do
    dropped = dropped + (get(key) ~= nil and drop(key) or 0)
  end
  return number(dropped)
end

function commands.exists(...)
  local known = 0
  for _, key in ipairs({ ... }) do
    known = known + (get(key) ~= nil and 1 or 0)
  end
  return number(known)
end

function commands.incr(key)
  local value = whole(get(key) or "0") + 1
  set(key, tostring(value), ends[key])
  return number(value)
end

function commands.expire(key, seconds)
  return expire(key, whole(seconds) * 1000)
end

function commands.pexpire(key, ms)
  return expire(key, whole(ms))
end

function commands.ttl(key)
  return left(key, 1000)
end

function commands.pttl(key)
  return left(key, 1)
end

function commands.dbsize()
  return number(order:size())
end

function commands.flushall()
  values, ends, order, mortal = {}, {}, list.new(), list.new()
  return OK
end

-- What clients ask for to get to know a server.
function commands.config(_, name)
  return "*2\r\n" .. bulk(name or "") .. bulk("")
end

function commands.command()
  return "*0\r\n"
end

local function answer(words)
  local name = words[1]:lower()
  local command = commands[name]
  if not command then
    return "-ERR unknown command '" .. name:sub(1, 64):gsub("%c", "?") .. "'\r\n"
  end
  local done, reply = pcall(command, table.unpack(words, 2))
  if done then
    return reply
  end
  if type(reply) == "string" and reply:sub(1, 1) == "-" then
    return reply
  end
  logger.error("command", name, "failed:", reply)
  return "-ERR wrong arguments for '" .. name .. "'\r\n"
end

-- The words of one command; nil and why, which is false at the end of the connection.
local function read(conn)
  local line = conn:read("\r\n")
  if not line then
    return nil, false
  end
  if line:byte() ~= 42 then -- "*"
    local words = {}
    for word in line:gmatch("%S+") do
      words[#words + 1] = word
    end
    return words
  end
  local length = math.tointeger(tonumber(line:sub(2, -3)))
  if not length or length < 0 or length > ARGUMENTS_MAX then
    return nil, "-ERR Protocol error: invalid multibulk length\r\n"
  end
  local words = {}
  for index = 1, length do
    local head = conn:read("\r\n")
    if not head then
      return nil, false
    end
    local bytes = head:byte() == 36 and math.tointeger(tonumber(head:sub(2, -3))) -- "$"
    if not bytes or bytes < 0 or bytes > BYTES_MAX then
      return nil, "-ERR Protocol error: invalid bulk length\r\n"
    end
    local word = conn:read(bytes + 2)
    if not word then
      return nil, false
    end
    words[index] = word:sub(1, bytes)
  end
  return words
end

local function serve(conn)
  while true do
    local words, why = read(conn)
    if not words then
      if why then
        conn:write(why)
      end
      break
    end
    if words[1] then
      conn:write(answer(words))
      if words[1]:lower() == "quit" then
        break
      end
    end
  end
  conn:close()
end

function commands.quit()
  return OK
end

local listener, why = tcp.listen { addr = env.get("listen") or "127.0.0.1:6380", accept = serve }
if not listener then
  error("cannot listen: " .. why)
end
time.after(SWEEP_MS, sweep)
logger.info("the cache listens on", listener.addr)
