-- Runs on every worker. Change this file while the demo runs: the next request uses it.
local visits = 0

return function(request, response)
  visits = visits + 1
  response.headers["x-visits"] = visits
  response:json(200, { hello = request.params.name, language = _VERSION })
end
