return function(request, response)
  response:json(200, { hello = request.query.name or "world" })
end
