-- Calls of net.cluster. `--serve=yes` responds until it is killed; otherwise it calls `--peer`.

local cluster = require "silly.net.cluster"
local env = require "silly.env"
local silly = require "silly"
local waitgroup = require "silly.sync.waitgroup"

local COROUTINES = 100

cluster.serve {
  marshal = function(_, command, data) return command, data end,
  unmarshal = function(_, _, data) return data end,
  call = function(_, _, data)
    if data == "cpu" then
      return tostring(os.clock())
    end
    return data
  end,
}

if env.get("serve") then
  assert(cluster.listen(env.get("listen")))
else
  local peer = cluster.connect(env.get("peer"))
  local function run(count)
    local group = waitgroup.new()
    for _ = 1, COROUTINES do
      group:fork(function()
        for _ = 1, count / COROUTINES do
          assert(cluster.call(peer, 1, "sixteen bytes ..") == "sixteen bytes ..")
        end
      end)
    end
    group:wait()
  end
  local calls = tonumber(env.get("count"))
  run(COROUTINES)
  local theirs = tonumber((assert(cluster.call(peer, 1, "cpu"))))
  local began = os.clock()
  run(calls)
  local own = os.clock() - began
  theirs = tonumber((assert(cluster.call(peer, 1, "cpu")))) - theirs
  print(("RESULT %.3f"):format((own + theirs) / calls * 1e6))
  silly.exit(0)
end
