-- `net.grpc.registrar`: which function serves which method.
return function(_, check)
  local Registrar = {}
  Registrar.__index = Registrar

  --- `new() → registrar`
  function Registrar.new() return setmetatable({ handlers = {} }, Registrar) end

  --- The service of a file with this name, or the one whose methods are in the table.
  local function find(proto, name, functions)
    local services = proto.service or {}
    for _, service in ipairs(services) do
      if name == nil then
        for _, method in ipairs(service.method or {}) do
          if functions[method.name] then return service end
        end
      elseif service.name == name then
        return service
      end
    end
    local names = {}
    for index, service in ipairs(services) do names[index] = service.name end
    error(("service not found: %s; the file has %s"):format(name or "", table.concat(names, ", ")), 3)
  end

  --- `register(proto[, name], { Method = fn })`
  function Registrar:register(proto, name, functions)
    check("register", 1, proto, "table")
    if functions == nil then name, functions = nil, name end
    check("register", 3, functions, "table")
    local service = find(proto, name, functions)
    local package = proto.package and proto.package ~= "" and proto.package .. "." or ""
    local known = {}
    for _, method in ipairs(service.method or {}) do
      local fn = functions[method.name]
      if type(fn) ~= "function" then
        error(("method %s of service %s has no function"):format(method.name, service.name), 2)
      end
      known[method.name] = true
      self.handlers[("/%s%s/%s"):format(package, service.name, method.name)] = {
        fn = fn,
        input = method.input_type,
        output = method.output_type,
        client_streaming = method.client_streaming == true,
        server_streaming = method.server_streaming == true,
      }
    end
    for method in pairs(functions) do
      if not known[method] then
        error(("service %s has no method %s"):format(service.name, tostring(method)), 2)
      end
    end
  end

  return Registrar
end
