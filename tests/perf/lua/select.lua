-- `select 1` by some coroutines at a time, for a number of queries.

local env = require "silly.env"
local mysql = require "silly.store.mysql"
local silly = require "silly"
local waitgroup = require "silly.sync.waitgroup"

local COROUTINES = 16
local queries = tonumber(env.get("count"))
local db = mysql.open {
  addr = env.get("mysql"), user = "ann", password = "secret", database = "test",
  charset = "utf8mb4", max_open_conns = COROUTINES, max_idle_conns = COROUTINES,
}

local function run(count)
  local group = waitgroup.new()
  for _ = 1, COROUTINES do
    group:fork(function()
      for _ = 1, count / COROUTINES do
        local rows = assert(db:query("select 1 as one"))
        assert(rows[1].one == 1)
      end
    end)
  end
  group:wait()
end

run(COROUTINES)
local began = os.clock()
run(queries)
print(("RESULT %.3f"):format((os.clock() - began) / queries * 1e6))
silly.exit(0)
