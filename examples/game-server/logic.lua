-- A logic node: the players of one zone. `start` starts one for each zone.

local cluster = require "silly.net.cluster"
local env = require "silly.env"
local logger = require "silly.logger"
local mutex = require "silly.sync.mutex"
local patch = require "silly.patch"
local signal = require "silly.signal"
local silly = require "silly"
local utils = require "silly.crypto.utils"

local players = require "players"
local protocol = require "protocol"
local rules = require "rules"

local zone = assert(env.get("zone"), "--zone=NAME is missing")
local nodes = protocol.nodes(env.get("nodes"))
local own = assert(nodes[zone], "--nodes has no node for this zone")
local settings = { mysql = env.get("mysql"), redis = env.get("redis") }
-- A node that has been started again is not the owner of the players it had before.
local store = players.open(settings, zone .. " " .. utils.randomkey(16))

-- Players of this zone by name, and the gateways that have sent commands.
local here, gateways = {}, {}
-- One command of a player at a time.
local turns = mutex.new()

local ABSENT = { absent = true, error = "the player is not here" }

local function state(player)
  return { zone = zone, gold = player.gold, streak = player.streak }
end

local function tell(text, except)
  for gateway in pairs(gateways) do
    cluster.send(gateway, protocol.TELL, { zone = zone, text = text, except = except })
  end
end

local handlers = {}

handlers[protocol.ENTER] = function(message)
  local player, why = store:enter(message.name, message.token)
  if not player then
    return { error = why }
  end
  player.streak = 0
  here[player.name] = player
  local result = state(player)
  result.token = player.token
  return result
end

handlers[protocol.LEAVE] = function(message)
  here[message.name] = nil
  return {}
end

handlers[protocol.DIG] = function(message)
  local player = here[message.name]
  if not player then
    return ABSENT
  end
  local found = rules.found(player.streak + 1)
  player.gold, player.streak = player.gold + found, player.streak + 1
  if not store:save(player) then
    here[player.name] = nil
    return ABSENT
  end
  tell(("%s finds %d gold"):format(player.name, found), player.name)
  local result = state(player)
  result.found = found
  return result
end

-- The player with all of its state goes to another node.
handlers[protocol.WALK] = function(message)
  local player, target = here[message.name], nodes[message.zone]
  if not player then
    return ABSENT
  elseif not target or target == own then
    return { error = "there is no such way" }
  end
  local there, why = cluster.call(target.peer, protocol.ADMIT, player)
  if there and not there.error then
    here[player.name] = nil
    return there
  end
  -- It is unknown whether the other node has the player: this one owns it again.
  store:claim(player.name)
  logger.warn("cannot walk to", target.zone, why or there.error)
  return { error = "the way is blocked" }
end

handlers[protocol.ADMIT] = function(player)
  store:claim(player.name)
  here[player.name] = player
  return state(player)
end

cluster.serve {
  marshal = protocol.marshal,
  unmarshal = protocol.unmarshal,
  call = function(peer, command, message)
    -- Only other nodes admit players.
    gateways[peer] = command ~= protocol.ADMIT or nil
    local turn <close> = turns:lock(message.name)
    local ok, result = silly.pcall(handlers[command], message)
    if ok then
      return result
    end
    -- What is in memory may not be stored: the player enters again, with what is.
    here[message.name] = nil
    logger.error("command", command, "of", message.name, "failed:", result)
    return { error = "this is not possible now", absent = true }
  end,
  close = function(peer)
    gateways[peer] = nil
  end,
}

for _, node in ipairs(nodes) do
  node.peer = node ~= own and cluster.connect(node.addr) or nil
end

signal("SIGHUP", function()
  local patched, why = patch.reload("rules")
  if not patched then
    return logger.error("the rules stay as they are:", why)
  end
  logger.info("rules patched after", rules.digs(), "digs in the", zone)
end)

-- A node that was killed leaves its socket behind.
local path = own.addr:match("^unix:(.*)")
if path then
  os.remove(path)
end
local listener, why = cluster.listen(own.addr)
if not listener then
  error("cannot listen: " .. why)
end
logger.info("open:", zone)
