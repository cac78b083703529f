-- `pb`: what packs and unpacks the fields of a message as values.
return function(pb)
  local pack_format, unpack_format = pb.pack_format, pb.unpack_format
  pb.pack_format, pb.unpack_format = nil, nil

  --- `pack(format, …) → string`; `pack(type[, buffer], …) → string | buffer`, with the values of the
  --- fields in the order of their numbers.
  function pb.pack(what, first, ...)
    if type(what) ~= "string" or not pb.type(what) then return pack_format(what, first, ...) end
    local buffer, values
    if type(first) == "userdata" then
      buffer, values = first, table.pack(...)
    else
      values = table.pack(first, ...)
    end
    local message, index = {}, 0
    for name in pb.fields(what) do
      index = index + 1
      message[name] = values[index]
    end
    return pb.encode(what, message, buffer)
  end

  --- `unpack(data, format, …) → values`; `unpack(type, data) → values of its fields`
  function pb.unpack(what, data, ...)
    if select("#", ...) > 0 or type(what) ~= "string" or not pb.type(what) then
      return unpack_format(what, data, ...)
    end
    local message, values, count = pb.decode(what, data), {}, 0
    for name in pb.fields(what) do
      count = count + 1
      values[count] = message[name]
    end
    return table.unpack(values, 1, count)
  end

  return pb
end
