-- A chat: a page, and a WebSocket on which every guest gets every message.
--
--   tidegate run examples/lua/chat.lua --listen=127.0.0.1:8001
--   open http://127.0.0.1:8001/ twice

local channel = require "silly.sync.channel"
local env = require "silly.env"
local http = require "silly.net.http"
local logger = require "silly.logger"
local task = require "silly.task"
local websocket = require "silly.net.websocket"

local GUESTS_MAX = 1000
local LINE_BYTES = 4096
local UNHEARD_MAX = 100

local PAGE = [[
<!doctype html><meta charset="utf-8"><title>Chat</title>
<style>body{font:16px sans-serif;max-width:40em;margin:2em auto}input{width:100%;font:inherit}</style>
<div id="lines"></div><input id="line" placeholder="Say something" autofocus>
<script>
const socket = new WebSocket(`ws://${location.host}/chat`)
const show = text => document.querySelector("#lines").append(text, document.createElement("br"))
socket.onmessage = event => show(event.data)
socket.onclose = () => show("The connection is closed.")
document.querySelector("#line").onchange = event => {
  socket.send(event.target.value)
  event.target.value = ""
}
</script>
]]

local guests, count, last = {}, 0, 0

-- A guest that does not read delays no other: each has its own queue, and is disconnected when that
-- is too long.
local function tell(text)
  for guest in pairs(guests) do
    if guest.unheard < UNHEARD_MAX then
      guest.unheard = guest.unheard + 1
      guest.queue:push(text)
    else
      guest.queue:close()
    end
  end
end

local function listen(guest)
  for text in function() return guest.queue:pop() end do
    guest.unheard = guest.unheard - 1
    if not guest.socket:write(text, "text") then
      break
    end
  end
  guest.socket:close()
end

local function chat(stream)
  if count >= GUESTS_MAX then
    stream:respond(503, { ["content-type"] = "text/plain" })
    return stream:closewrite("the room is full\n")
  end
  local socket, why = websocket.upgrade(stream, { max_message = LINE_BYTES })
  if not socket then
    return logger.warn("no WebSocket:", why)
  end
  last, count = last + 1, count + 1
  local name = "guest " .. last
  local guest = { socket = socket, queue = channel.new(), unheard = 0 }
  guests[guest] = true
  task.fork(listen, guest)
  tell(name .. " is here")
  while true do
    local data, kind = socket:read()
    if not data or kind == "close" then
      break
    end
    if kind == "text" then
      tell(name .. ": " .. data)
    end
  end
  guests[guest], count = nil, count - 1
  guest.queue:close()
  tell(name .. " has left")
end

local function handler(stream)
  if stream.path == "/chat" then
    return chat(stream)
  end
  local found = stream.path == "/"
  stream:respond(found and 200 or 404, {
    ["content-type"] = found and "text/html; charset=utf-8" or "text/plain",
  })
  stream:closewrite(found and PAGE or "there is nothing here\n")
end

local listener, why = http.listen { addr = env.get("listen") or "127.0.0.1:8001", handler = handler }
if not listener then
  error("cannot listen: " .. why)
end
logger.info("the chat listens on", listener.addr)
