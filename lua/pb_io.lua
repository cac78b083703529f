-- `pb.io`: whole files of bytes.
return function()
  local buffer = require "silly.pb.buffer"

  local function write(file, ...)
    for index = 1, select("#", ...) do
      local ok, err, code = file:write(buffer.result((select(index, ...))))
      if not ok then return nil, err, code end
    end
    return true
  end

  local module = {}

  --- `read([name]) → bytes | nil, err`: a file, or standard input
  function module.read(name)
    if name == nil then return io.read "a" end
    local file <close>, err, code = io.open(name, "rb")
    if not file then return nil, err, code end
    return file:read "a"
  end

  --- `write(…) → true | nil, err`: to standard output
  function module.write(...)
    local ok, err, code = write(io.stdout, ...)
    io.stdout:flush()
    return ok, err, code
  end

  --- `dump(name, …) → true | nil, err`: to a file
  function module.dump(name, ...)
    local file <close>, err, code = io.open(name, "wb")
    if not file then return nil, err, code end
    return write(file, ...)
  end

  return module
end
