-- `net.tcp`: `parse`, on top of the raw calls. Each function is a method of connections too.
return function(tcp)
  --- `conn:parse(parser[, ms])`: calls `parser(unread)` with the unread bytes, and again whenever more have
  --- arrived, until it returns a number: so many bytes are taken and its other results returned. A
  --- parser that returns nil needs more. `nil, err` at the end of the stream or after `ms`.
  function tcp.parse(conn, parser, ms)
    if type(parser) ~= "function" then
      error("bad argument #2 to 'parse' (function expected, got " .. type(parser) .. ")", 2)
    end
    local function finish(taken, ...)
      if taken > 0 then conn:read(taken) end
      return ...
    end
    while true do
      local data, why = conn:peek()
      if not data then return nil, why end
      local result = table.pack(parser(data))
      if result[1] then
        return finish(result[1], table.unpack(result, 2, result.n))
      end
      local more
      more, why = conn:more(ms)
      if not more then return nil, why end
    end
  end

  return tcp
end
