-- `pb.unsafe`: as in lua-protobuf, with strings where it has addresses.
return function()
  local pb, slice = require "silly.pb", require "silly.pb.slice"

  local function part(name, data, size)
    if type(data) ~= "string" then
      error(("bad argument to '%s' (string expected, got %s)"):format(name, type(data)), 3)
    end
    return data:sub(1, size)
  end

  local module = {}

  --- `touserdata(data) → data, size`
  function module.touserdata(data)
    data = pb.result(data)
    return data, #data
  end

  --- `decode(type, data, size[, table]) → table`
  function module.decode(name, data, size, table) return pb.decode(name, part("decode", data, size), table) end

  --- `slice(data, size) → slice`
  function module.slice(data, size) return slice.new(part("slice", data, size)) end

  --- `use("global" | "local") → true`: each VM has its own types.
  function module.use(scope)
    if scope ~= "global" and scope ~= "local" then
      error(("bad argument #1 to 'use' (invalid option '%s': global or local expected)"):format(tostring(scope)), 2)
    end
    return true
  end

  return module
end
