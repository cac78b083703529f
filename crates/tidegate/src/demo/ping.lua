-- Speaks the Redis protocol: replies PONG to every command, also when many arrive at once.
return function(connection)
  while true do
    local line = connection:read("\r\n")
    if not line then return end
    local kind = line:sub(1, 1)            -- "*" and "$" only announce lengths
    if kind ~= "*" and kind ~= "$" then connection:write("+PONG\r\n") end
  end
end
