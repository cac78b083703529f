-- Encoding and decoding one message, for a Lua interpreter with lua-protobuf's modules.
--
--   PROGRAM protobuf.lua [DIRECTORY with protoc.lua and pb.so]

local directory = arg and arg[1]
if directory and not directory:find("^%-%-") then
  package.path = directory .. "/?.lua;" .. package.path
  package.cpath = directory .. "/?.so;" .. package.cpath
end
local pb, protoc = require "pb", require "protoc"

assert(protoc.new():load([[
  syntax = "proto3";
  message Item { string name = 1; int32 count = 2; double price = 3; repeated int64 codes = 4; }
  message Order {
    int64 id = 1;
    repeated Item items = 2;
    map<string, int32> stock = 3;
    bytes note = 4;
    bool paid = 5;
    State state = 6;
  }
  enum State { OPEN = 0; PAID = 1; }
]], "order.proto"))

local items, stock = {}, {}
for at = 1, 20 do
  local codes = { at, at * 1000, at * 1000000 }
  items[at] = { name = "item " .. at, count = at, price = at * 1.25, codes = codes }
  stock["shelf " .. at] = at * 7
end
local order = { id = 123456789, items = items, stock = stock, paid = true, state = "PAID" }
order.note = ("n"):rep(200)
local bytes = pb.encode("Order", order)
assert(pb.decode("Order", bytes).items[20].codes[3] == 20000000)

local ROUNDS = 3000
local function best(work)
  local least = math.huge
  for _ = 1, 7 do
    local began = os.clock()
    for _ = 1, ROUNDS do
      work()
    end
    least = math.min(least, os.clock() - began)
  end
  return least / ROUNDS * 1e6
end

local encoding = best(function() return pb.encode("Order", order) end)
local decoding = best(function() return pb.decode("Order", bytes) end)
print(("RESULT %.3f %.3f"):format(encoding, decoding))
local has_silly, silly = pcall(require, "silly")
if has_silly then
  silly.exit(0)
end
