-- 40 000 lines from adt.buffer: appended in pieces as they arrive from a socket, and read.

local buffer = require "silly.adt.buffer"

local LINES, PIECE = 40000, 4096
local text = ("a line of some thirty bytes....\n"):rep(LINES)

local function run()
  local lines = buffer.new()
  local began = os.clock()
  for at = 1, #text, PIECE do
    lines:append(text:sub(at, at + PIECE - 1))
  end
  local count = 0
  while lines:read("\n") do
    count = count + 1
  end
  local took = os.clock() - began
  assert(count == LINES and lines:size() == 0)
  return took
end

local best = math.huge
for _ = 1, 20 do
  best = math.min(best, run())
end
print(("RESULT %.3f"):format(best * 1000))
require("silly").exit(0)
