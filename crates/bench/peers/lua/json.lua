-- Decodes or encodes one document over and over, for so many seconds of CPU.
--
-- Usage: PROGRAM json.lua --module=NAME --document=FILE --operation=decode|encode --seconds=N
-- It ends with a line `RESULT documents seconds`: how often it was done, and the CPU time of that.

local has_env, env = pcall(require, "silly.env")
local given = {}
for _, word in ipairs(arg or {}) do
  local name, value = word:match("^%-%-(%w+)=(.*)$")
  if name then
    given[name] = value
  end
end

local function option(name)
  local value = given[name] or has_env and env.get(name)
  return value or error("no --" .. name)
end

local json = require(option("module"))
local file = assert(io.open(option("document"), "rb"))
local text = file:read("a")
file:close()

local work, input = json.decode, text
if option("operation") == "encode" then
  work, input = json.encode, json.decode(text)
end
assert(work(input))

-- The clock is looked at about every millisecond of work.
local began, batch = os.clock(), 0
repeat
  work(input)
  batch = batch + 1
until os.clock() - began > 0.001

local longest, done = tonumber(option("seconds")), 0
began = os.clock()
local passed
repeat
  for _ = 1, batch do
    work(input)
  end
  done = done + batch
  passed = os.clock() - began
until passed >= longest

print(string.format("RESULT %d %.6f", done, passed))
local has_silly, silly = pcall(require, "silly")
if has_silly then
  silly.exit(0)
end
