-- 100 000 sleeping coroutines: the memory of one and of all, and how long waking all takes.

local hrtime = require "silly.perf".hrtime
local silly = require "silly"
local task = require "silly.task"
local time = require "silly.time"

local COROUTINES = 100000
local SLEEP_MS = 3000

local function resident()
  for line in io.lines("/proc/self/status") do
    local kib = line:match("^VmRSS:%s+(%d+)")
    if kib then
      return tonumber(kib)
    end
  end
end

collectgarbage()
local before = resident()
local woken, last = 0, 0
local began, due = time.monotonic(), hrtime() + SLEEP_MS * 1000000
for _ = 1, COROUTINES do
  task.fork(function()
    time.sleep(began + SLEEP_MS - time.monotonic())
    woken, last = woken + 1, hrtime()
  end)
end
time.sleep(began + SLEEP_MS - 500 - time.monotonic())
assert(woken == 0, "the machine is too slow for this measurement")
local asleep = resident()
repeat
  time.sleep(10)
until woken == COROUTINES
local seconds = (last - due) / 1e9
print(("RESULT %.3f %.1f %.3f"):format((asleep - before) / COROUTINES, asleep / 1024, seconds))
silly.exit(0)
