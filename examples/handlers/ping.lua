-- What redis-cli and redis-benchmark say first.
return function(connection)
  while true do
    local line = connection:read("\r\n")
    if not line then return end
    if line:byte() ~= 36 and line:byte() ~= 42 then   -- neither a length nor a count of RESP
      connection:write("+PONG\r\n")
    end
  end
end
