-- The gateway: WebSockets of players in front, the logic nodes behind.

local channel = require "silly.sync.channel"
local cluster = require "silly.net.cluster"
local env = require "silly.env"
local http = require "silly.net.http"
local json = require "silly.encoding.json"
local logger = require "silly.logger"
local mutex = require "silly.sync.mutex"
local redis = require "silly.store.redis"
local task = require "silly.task"
local websocket = require "silly.net.websocket"

local protocol = require "protocol"

local PLAYERS_MAX = 1000
local MESSAGE_BYTES = 1024
local UNSENT_MAX = 100
local NODE_TIMEOUT_MS = 5000

local PAGE = [[
<!doctype html><meta charset="utf-8"><title>Gold</title>
<style>body{font:16px sans-serif;max-width:40em;margin:2em auto}</style>
<button value='{"do":"dig"}'>Dig</button>
<button value='{"do":"walk","zone":"mine"}'>To the mine</button>
<button value='{"do":"walk","zone":"forest"}'>To the forest</button>
<button value='{"do":"top"}'>Ranking</button>
<pre id="log"></pre>
<script>
const socket = new WebSocket(`ws://${location.host}/play`)
const name = prompt("Your name, in small letters")
socket.onopen = () => socket.send(JSON.stringify(
  {do: "enter", name, token: localStorage.getItem(name) ?? undefined}))
socket.onmessage = event => {
  const {token} = JSON.parse(event.data)
  if (token) localStorage.setItem(name, token)
  document.querySelector("#log").prepend(event.data, "\n")
}
document.onclick = event => event.target.value && socket.send(event.target.value)
</script>
]]

local nodes = protocol.nodes(env.get("nodes"))
local ranking = redis.new { addr = env.get("redis") }

-- Sessions by the name of their player.
local sessions, count = {}, 0
-- One command of a session at a time, also when its node is lost.
local turns = mutex.new()

-- Queues a message; a client that reads too slowly is disconnected.
local function send(session, message)
  session.unsent = session.unsent + 1
  if session.unsent <= UNSENT_MAX then
    session.queue:push(json.encode(message))
  else
    session.queue:close()
  end
end

local function write(session)
  for text in function() return session.queue:pop() end do
    session.unsent = session.unsent - 1
    if not session.socket:write(text, "text") then
      break
    end
  end
  session.socket:close()
end

local function enter(session, node)
  local message = { name = session.name, token = session.token }
  local state, why = cluster.call(node.peer, protocol.ENTER, message)
  if state and not state.error then
    session.node, session.token = node, state.token
  end
  return state, why
end

-- Brings a player whose node is lost to one that responds, that node last. What was stored is kept.
local function rescue(session)
  local lost = session.node
  local order = {}
  for _, node in ipairs(nodes) do
    table.insert(order, node == lost and #order + 1 or 1, node)
  end
  for _, node in ipairs(order) do
    local state = enter(session, node)
    if state and not state.error then
      state.event = "lost in the " .. lost.zone
      return state
    end
  end
  session.queue:close()
  return { error = "the game is not reachable" }
end

-- Runs a command on the node of the player.
local function forward(session, command, message)
  message.name = session.name
  local state, why = cluster.call(session.node.peer, command, message)
  if state and not state.absent then
    return state
  end
  logger.warn("no response by", session.node.zone, "for", session.name, why or state.error)
  return rescue(session)
end

local commands = {}

function commands.enter(session, message)
  local name, token = message.name, message.token
  if session.name then
    return { error = "you have entered" }
  elseif type(name) ~= "string" or #name > 16 or not name:find("^%l[%l%d]*$") then
    return { error = "a name has 1 to 16 small letters and digits" }
  elseif token ~= nil and type(token) ~= "string" then
    return { error = "wrong token" }
  elseif sessions[name] then
    return { error = "this player is connected" }
  end
  session.name, session.token, sessions[name] = name, token, session
  local problem = "the game is not reachable"
  for _, node in ipairs(nodes) do
    local state = enter(session, node)
    if state and not state.error then
      return state
    end
    problem = state and state.error or problem
    if state then
      break
    end
  end
  session.name, sessions[name] = nil, nil
  return { error = problem }
end

function commands.dig(session)
  return forward(session, protocol.DIG, {})
end

function commands.walk(session, message)
  local target = type(message.zone) == "string" and nodes[message.zone]
  if not target or target == session.node then
    return { error = "there is no such way" }
  end
  local state = forward(session, protocol.WALK, { zone = target.zone })
  session.node = nodes[state.zone] or session.node
  return state
end

function commands.top()
  local ok, list = ranking:zrevrange("gold", 0, 9, "withscores")
  if not ok then
    logger.error("no ranking:", list)
    return { error = "there is no ranking now" }
  end
  local top = {}
  for at = 1, #list, 2 do
    top[#top + 1] = { name = list[at], gold = tonumber(list[at + 1]) }
  end
  return { top = top }
end

local function handle(session, text)
  local message = json.decode(text)
  local command = type(message) == "table" and commands[message["do"]]
  if not command then
    return { error = "unknown command" }
  elseif command ~= commands.enter and not session.name then
    return { error = "enter first" }
  end
  local turn <close> = turns:lock(session)
  return command(session, message)
end

local function leave(session)
  local turn <close> = turns:lock(session)
  if session.name then
    sessions[session.name] = nil
    cluster.call(session.node.peer, protocol.LEAVE, { name = session.name })
  end
end

local function play(stream)
  if count >= PLAYERS_MAX then
    stream:respond(503, { ["content-type"] = "text/plain" })
    return stream:closewrite("the game is full\n")
  end
  local socket, why = websocket.upgrade(stream, { max_message = MESSAGE_BYTES })
  if not socket then
    return logger.warn("no WebSocket:", why)
  end
  count = count + 1
  local session = { socket = socket, queue = channel.new(), unsent = 0 }
  task.fork(write, session)
  while true do
    local data, kind = socket:read()
    if not data or kind == "close" then
      break
    elseif kind == "text" then
      send(session, handle(session, data))
    end
  end
  count = count - 1
  session.queue:close()
  leave(session)
end

local function handler(stream)
  if stream.path == "/play" then
    return play(stream)
  end
  local found = stream.path == "/"
  stream:respond(found and 200 or 404, {
    ["content-type"] = found and "text/html; charset=utf-8" or "text/plain",
  })
  stream:closewrite(found and PAGE or "there is nothing here\n")
end

cluster.serve {
  marshal = protocol.marshal,
  unmarshal = protocol.unmarshal,
  timeout = NODE_TIMEOUT_MS,
  -- A node tells the players of its zone something.
  call = function(_, _, message)
    for name, session in pairs(sessions) do
      if session.node and session.node.zone == message.zone and name ~= message.except then
        send(session, { event = message.text })
      end
    end
    return {}
  end,
  close = function(peer, why)
    for _, session in pairs(sessions) do
      if session.node and session.node.peer == peer then
        task.fork(function()
          local turn <close> = turns:lock(session)
          if sessions[session.name] == session and session.node.peer == peer then
            logger.warn("a node is lost,", session.name, "is brought to another:", why)
            send(session, rescue(session))
          end
        end)
      end
    end
  end,
}

for _, node in ipairs(nodes) do
  node.peer = cluster.connect(node.addr)
end

local listen = env.get("listen") or "127.0.0.1:8080"
local listener, why = http.listen { addr = listen, handler = handler }
if not listener then
  error("cannot listen: " .. why)
end
logger.info("the gateway listens on", listener.addr)
