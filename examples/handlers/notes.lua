-- Notes that all workers see, kept for an hour.
local shared = require "tide.shared"

return function(request, response)
  if request.method == "GET" then
    local text = shared.get("note " .. request.params.id)
    if not text then
      return response:json(404, { error = "there is no such note" })
    end
    return response:json({ id = math.tointeger(request.params.id), text = text })
  end
  local note, why = request.body:json(64 * 1024)
  if type(note) ~= "table" or type(note.text) ~= "string" then
    return response:json(400, { error = why or "text is missing" })
  end
  local id = shared.add("notes")
  shared.set("note " .. id, note.text, 3600)
  response.headers.location = "/notes/" .. id
  response:json(201, { id = id })
end
