-- `protoc`: compilers of `.proto` files, each with the files and the types it knows.
return function(raw, check)
  local pb = require "silly.pb"

  local Compiler = { typemap = {}, loaded = {}, paths = { "." } }
  Compiler.__index = Compiler

  -- The binary descriptor of each file that was parsed.
  local binary = setmetatable({}, { __mode = "k" })

  -- The types of descriptors, in a state of their own, so that options of programs do not matter.
  local descriptors

  local function length_prefixed(bytes) return pb.pack("vs", 10, bytes) end

  -- The descriptor of descriptors.
  local descriptor_set

  --- `reload() → true`: loads the types of descriptors into the current state.
  function Compiler.reload()
    if not descriptor_set then
      local file = assert(raw.parse(raw.well_known(raw.descriptor)))
      assert(file:resolve(function() end, function() end))
      descriptor_set = length_prefixed(file:descriptor(raw.descriptor))
    end
    assert(pb.load(descriptor_set))
    return true
  end

  local function described(bytes)
    if not descriptors then
      local before = pb.state(nil)
      Compiler.reload()
      pb.option "enum_as_value"
      pb.option "no_default_values"
      descriptors = pb.state(before)
    end
    local before = pb.state(descriptors)
    local ok, info = pcall(pb.decode, "google.protobuf.FileDescriptorProto", bytes)
    pb.state(before)
    if not ok then error(info, 0) end
    return info
  end

  --- `new() → compiler`
  function Compiler.new()
    return setmetatable({ typemap = {}, loaded = {}, paths = { "." } }, Compiler)
  end

  --- `addpath(path)`: a directory where imports are searched.
  function Compiler:addpath(path)
    check("addpath", 1, path, "string")
    self.paths[#self.paths + 1] = path
  end

  --- What a handler says of a name: true for all, a pattern, or a function.
  local function handled(self, handler, name)
    if type(handler) == "function" then return handler(self, name) end
    return handler == true or type(handler) == "string" and name:match(handler) ~= nil
  end

  local function known_type(self, name)
    local number = self.typemap[name]
    if number then return number end
    local _, _, kind = pb.type(name)
    return kind and (kind == "enum" and 14 or 11)
  end

  local function unknown_type(self, name)
    local found, kind = handled(self, self.unknown_type, name)
    if not found then return nil end
    if found == true then found = name:sub(1, 1) == "." and name or "." .. name end
    return found, kind or "message"
  end

  local function import(self, name)
    local info = self:parsefile(name)
    if info and self.on_import then self.on_import(info) end
  end

  local function compile(self, text, name)
    local file, reason = raw.parse(text)
    if not file then error(name .. ":" .. reason, 0) end
    for _, imported in ipairs(file:imports()) do import(self, imported) end
    local declared
    declared, reason = file:declared()
    if not declared then error(name .. ":" .. reason, 0) end
    local ok
    ok, reason = file:resolve(
      function(found) return known_type(self, found) end,
      function(missing) return unknown_type(self, missing) end
    )
    if not ok then error(name .. ":" .. reason, 0) end
    for found, number in pairs(declared) do self.typemap[found] = number end
    local bytes = file:descriptor(name)
    local info = described(bytes)
    file:set_custom_options(info)
    binary[info] = bytes
    return info
  end

  --- `parse(text[, name]) → table`: the descriptor of a file
  function Compiler:parse(text, name)
    check("parse", 1, text, "string")
    if self == Compiler then self = Compiler.new() end
    name = name or "<input>"
    local known = self.loaded[name]
    if known == true then error("loop loaded: " .. name, 0) end
    if known then return known end
    self.loaded[name] = true
    local ok, info = pcall(compile, self, text, name)
    self.loaded[name] = nil
    if not ok then error(info, 0) end
    if name ~= "<input>" then self.loaded[name] = info end
    return info
  end

  local function read(path)
    local file <close>, err = io.open(path, "rb")
    if not file then return nil, err end
    return file:read "a"
  end

  --- `parsefile(name) → table`: as parse, of a file in one of the paths
  function Compiler:parsefile(name)
    check("parsefile", 1, name, "string")
    if self == Compiler then self = Compiler.new() end
    local known = self.loaded[name]
    if known and known ~= true then return known end
    local errors = {}
    for _, path in ipairs(self.paths) do
      local text, err = read(path == "" and name or path .. "/" .. name)
      if text then return self:parse(text, name) end
      errors[#errors + 1] = err
    end
    local text = raw.well_known(name)
    if text then
      local info = self:parse(text, name)
      -- No other file has its types.
      assert(pb.load(length_prefixed(binary[info])))
      return info
    end
    local handler = self.unknown_import or self.unknown_module
    local info = handled(self, handler, name)
    if not info and self.import_fallback then info = self.import_fallback(name) end
    if not info then
      error("module load error: " .. name .. "\n\t" .. table.concat(errors, "\n\t"), 0)
    end
    return info ~= true and info or nil
  end

  local function set(self, method, ...)
    if self == Compiler then self = Compiler.new() end
    local files, before = {}, self.on_import
    if self.include_imports then
      function self.on_import(info)
        files[#files + 1] = info
        if before then before(info) end
      end
    end
    local ok, info = pcall(self[method], self, ...)
    self.on_import = before
    if not ok then error(info, 0) end
    files[#files + 1] = info
    local parts, seen = {}, {}
    for _, file in ipairs(files) do
      if binary[file] and not seen[file] then
        seen[file] = true
        parts[#parts + 1] = length_prefixed(binary[file])
      end
    end
    return table.concat(parts)
  end

  --- `compile(text[, name]) → bytes`: what `protoc --descriptor_set_out` writes
  function Compiler:compile(text, name) return set(self, "parse", text, name) end

  --- `compilefile(name) → bytes`
  function Compiler:compilefile(name) return set(self, "parsefile", name) end

  local function load(bytes)
    local ok, position, reason = pb.load(bytes)
    if not ok then error(("load failed at offset %d: %s"):format(position, reason), 0) end
    return ok, position
  end

  --- `load(text[, name]) → true, position`: compiles a file and loads its types into `pb`
  function Compiler:load(text, name) return load(self:compile(text, name)) end

  --- `loadfile(name) → true, position`
  function Compiler:loadfile(name) return load(self:compilefile(name)) end

  Compiler.reload()
  return Compiler
end
