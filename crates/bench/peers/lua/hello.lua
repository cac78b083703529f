-- Answers what `hello` asks for, as `respond` does.

return function(_, response)
  response.headers["content-type"] = "text/plain"
  response:write("pong")
end
