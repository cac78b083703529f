-- What gateway and logic nodes send each other: a command and a table, as JSON.

local json = require "silly.encoding.json"

local protocol = { ENTER = 1, LEAVE = 2, DIG = 3, WALK = 4, ADMIT = 5, TELL = 6 }

function protocol.marshal(_, command, object)
  return command, json.encode(object)
end

function protocol.unmarshal(_, _, data)
  return json.decode(data)
end

-- The nodes in the order of `--nodes=ZONE=ADDRESS,…`, and by zone.
function protocol.nodes(text)
  local nodes = {}
  for zone, addr in (text or ""):gmatch("(%w+)=([^,]+)") do
    local node = { zone = zone, addr = addr }
    nodes[#nodes + 1], nodes[zone] = node, node
  end
  assert(#nodes > 0, "--nodes=ZONE=ADDRESS,… is missing")
  return nodes
end

return protocol
