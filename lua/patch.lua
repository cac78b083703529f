-- `patch`: replaces code in a running program.
return function()
  local patch = {}
  local Patch = {}
  Patch.__index = Patch

  --- `new()` → patcher
  function patch.new()
    return setmetatable({}, Patch)
  end

  local function collect(value, tree, seen)
    if type(value) == "function" then
      if seen[value] then return seen[value] end
      local node = { fn = value, upvalues = {} }
      seen[value] = node
      local at = 1
      while true do
        local name, upvalue = debug.getupvalue(value, at)
        if not name then break end
        local entry = { index = at, id = debug.upvalueid(value, at) }
        if name ~= "_ENV" and (type(upvalue) == "function" or type(upvalue) == "table") then
          entry.tree = collect(upvalue, {}, seen)
        end
        node.upvalues[name] = entry
        at = at + 1
      end
      return node
    end
    if type(value) == "table" then
      if seen[value] then return seen[value] end
      seen[value] = tree
      tree.table, tree.fields = value, {}
      for key, field in pairs(value) do
        if type(field) == "function" then tree.fields[key] = collect(field, {}, seen) end
      end
      return tree
    end
    return tree
  end

  --- `collectupval(fn | table)` → tree of the upvalues of a function, or of a table's functions
  function Patch:collectupval(value)
    if type(value) ~= "function" and type(value) ~= "table" then
      error("bad argument #1 to 'collectupval' (function or table expected)", 2)
    end
    return collect(value, {}, {})
  end

  local join

  --- Of two tables in a local variable the old one stays, as its other fields are state: a class gets
  --- its new methods. `owner` is a function of the old file.
  local function join_table(new, old, owner, path, absent, seen)
    if not (new and new.fields and old and old.fields) then return end
    if new.table == old.table or seen[new] then return end
    join(new, old, path, absent, seen)
    local source = debug.getinfo(owner, "S").source
    for key, field in pairs(new.fields) do
      local former = old.table[key]
      -- A function of another file was put there by the running program.
      if former == nil
        or type(former) == "function" and debug.getinfo(former, "S").source == source then
        old.table[key] = field.fn
      end
    end
  end

  function join(new, old, path, absent, seen)
    if seen[new] then return end
    seen[new] = true
    for name, field in pairs(new.fields or {}) do
      local other = old.fields and old.fields[name]
      if other then join(field, other, path .. "." .. tostring(name), absent, seen)
      else absent[#absent + 1] = path .. "." .. tostring(name) end
    end
    for name, entry in pairs(new.upvalues or {}) do
      local other = old.upvalues and old.upvalues[name]
      local at = path .. "." .. name
      if not other then
        if name ~= "_ENV" then absent[#absent + 1] = at end
      elseif entry.tree and entry.tree.fn and other.tree then
        -- A function is replaced: its own upvalues stay alive.
        join(entry.tree, other.tree, at, absent, seen)
      else
        debug.upvaluejoin(new.fn, entry.index, old.fn, other.index)
        join_table(entry.tree, other.tree, old.fn, at, absent, seen)
      end
    end
  end

  --- `join(new, newtree, old, oldtree)` or `join(new, old)` → paths that the old code does not have: the
  --- new functions use the state of the old ones from now on.
  function Patch:join(new, newtree, old, oldtree)
    if old == nil then old, newtree = newtree, nil end
    newtree = newtree or self:collectupval(new)
    oldtree = oldtree or self:collectupval(old)
    local absent = {}
    join(newtree, oldtree, "", absent, {})
    for at, path in ipairs(absent) do absent[at] = path:sub(2) end
    table.sort(absent)
    return absent
  end

  --- `reload(name)` → the module, absent paths: loads a module's file again, joins its functions to
  --- the state of the old ones and puts them into the table that all modules hold. `nil, err` if the
  --- new file does not load; then nothing has changed.
  function patch.reload(name)
    local old = package.loaded[name]
    if type(old) ~= "table" then return nil, "module '" .. name .. "' is not loaded as a table" end
    local file, why = package.searchpath(name, package.path)
    if not file then return nil, why end
    local chunk, broken = loadfile(file)
    if not chunk then return nil, broken end
    local ok, new = pcall(chunk, name, file)
    if not ok then return nil, new end
    if type(new) ~= "table" then return nil, "module '" .. name .. "' returns no table" end
    local patcher = patch.new()
    local absent = patcher:join(new, old)
    for key, value in pairs(new) do
      if type(value) == "function" or old[key] == nil then old[key] = value end
    end
    return old, absent
  end

  return patch
end
