-- Players in MySQL, and their ranking in Redis.
--
-- A row has the node that owns the player. Only the owner may write the gold, so a node that has
-- lost a player without noticing it cannot overwrite what the next one has stored.

local mysql = require "silly.store.mysql"
local redis = require "silly.store.redis"
local time = require "silly.time"
local utils = require "silly.crypto.utils"

local DUPLICATE_KEY = 1062
local RETRY_MS = 100

local TABLE = [[create table if not exists players (
  name varchar(16) primary key, token char(64) not null, gold bigint not null default 0,
  owner varchar(64) not null default '')]]

local Players = {}
Players.__index = Players

-- Waits until both stores respond: a node may start before them.
local function open(settings, owner)
  local db = mysql.open {
    addr = settings.mysql, user = "game", password = "gold", database = "game",
    max_open_conns = 8, timeout = 5000,
  }
  local self = { db = db, redis = redis.new { addr = settings.redis }, owner = owner }
  while not (self.redis:ping() and db:query(TABLE)) do
    time.sleep(RETRY_MS)
  end
  return setmetatable(self, Players)
end

-- The first row of a statement, or the counts of one that has no rows; an error is raised.
function Players:query(text, ...)
  local rows, err = self.db:query(text, ...)
  if not rows then
    error("MySQL: " .. err.message)
  end
  return rows.type and rows or rows[1]
end

-- From now on this node owns the player.
function Players:claim(name)
  self:query("update players set owner = ? where name = ?", self.owner, name)
end

function Players:register(name)
  local token = utils.randomkey(32)
  local insert = "insert into players (name, token) values (?, sha2(?, 256))"
  local ok, err = self.db:query(insert, name, token)
  if not ok and err.errno == DUPLICATE_KEY then
    return nil, "this name is taken"
  end
  assert(ok, err and err.message)
  return token
end

-- Returns the stored player; or nil and a reason. A new name gets a token, to return with.
function Players:enter(name, token)
  if not token then
    local why
    token, why = self:register(name)
    if not token then
      return nil, why
    end
  end
  local select = "select gold from players where name = ? and token = sha2(?, 256)"
  local row = self:query(select, name, token)
  if not row then
    return nil, "wrong token"
  end
  self:claim(name)
  return { name = name, gold = row.gold, token = token }
end

-- Stores the gold; false if another node owns the player by now.
function Players:save(player)
  local update = "update players set gold = ? where name = ? and owner = ?"
  local result = self:query(update, player.gold, player.name, self.owner)
  if result.affected_rows == 0 then
    return false
  end
  local ok, why = self.redis:zadd("gold", player.gold, player.name)
  if not ok then
    error("Redis: " .. why)
  end
  return true
end

return { open = open }
