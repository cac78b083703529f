-- How long the handler took, in a header of the response.
local clock = os.clock

return {
  request = function(request)
    request.state.began = clock()
  end,
  response = function(request, response)
    local took = (clock() - request.state.began) * 1e6
    response.headers["server-timing"] = string.format("lua;dur=%.3f", took / 1000)
  end,
}
