-- `fs`: files and directories, on top of calls that run on blocking threads.
return function(raw, check)
  local errno = require "silly.errno"

  local function bytes(name, index, value)
    if value ~= nil and (math.type(value) ~= "integer" or value < 0) then
      error(("bad argument #%d to '%s' (a number of bytes expected)"):format(index, name), 3)
    end
    return value
  end

  local fs = {}

  --- `read(path[, limit])` → data | nil, err
  function fs.read(path, limit)
    check("read", 1, path, "string")
    return raw.read(path, bytes("read", 2, limit))
  end

  --- `write(path, data[, { atomic = true }])` → true | nil, err
  function fs.write(path, data, options)
    check("write", 1, path, "string")
    check("write", 2, data, "string")
    return raw.write(path, data, options and options.atomic and "atomic" or "write")
  end

  --- `append(path, data)` → true | nil, err
  function fs.append(path, data)
    check("append", 1, path, "string")
    check("append", 2, data, "string")
    return raw.write(path, data, "append")
  end

  --- `stat(path[, { follow = false }])` → { type, size, mode, mtime, links } | nil, err
  function fs.stat(path, options)
    check("stat", 1, path, "string")
    return raw.stat(path, not options or options.follow ~= false)
  end

  --- `list(path)` → { { name, type }, ... } by name | nil, err
  function fs.list(path)
    check("list", 1, path, "string")
    return raw.list(path)
  end

  --- `mkdir(path[, { parents = true }])` → true | nil, err
  function fs.mkdir(path, options)
    check("mkdir", 1, path, "string")
    return raw.mkdir(path, options and options.parents or false)
  end

  --- `remove(path[, { recursive = true }])` → true | nil, err: a file, a link, or a directory
  function fs.remove(path, options)
    check("remove", 1, path, "string")
    return raw.remove(path, options and options.recursive or false)
  end

  --- `rename(from, to)` → true | nil, err
  function fs.rename(from, to)
    check("rename", 1, from, "string")
    check("rename", 2, to, "string")
    return raw.rename(from, to)
  end

  --- `temp([{ dir, prefix, directory }])` → path | nil, err: a new file that only this user can access
  function fs.temp(options)
    options = options or {}
    return raw.temp(options.dir, options.prefix, options.directory or false)
  end

  local File = { __name = "file" }
  File.__index = File

  --- `open(path[, "r" | "w" | "a"])` → file | nil, err
  function fs.open(path, mode)
    check("open", 1, path, "string")
    mode = mode or "r"
    if mode ~= "r" and mode ~= "w" and mode ~= "a" then
      error("bad argument #2 to 'open' (\"r\", \"w\" or \"a\" expected)", 2)
    end
    local handle, why = raw.open(path, mode)
    if not handle then return nil, why end
    return setmetatable({ handle = handle }, File)
  end

  --- `file:read([n])` → at most n bytes | nil, errno.EOF | nil, err
  function File:read(n)
    return raw.file_read(self.handle, bytes("read", 1, n) or 64 * 1024)
  end

  --- `file:write(data)` → true | nil, err
  function File:write(data)
    check("write", 1, data, "string")
    return raw.file_write(self.handle, data)
  end

  --- `file:sync()` → true | nil, err: the written data is on the disk
  function File:sync() return raw.file_sync(self.handle) end

  function File:close() raw.file_close(self.handle) end
  File.__close = File.close

  local Watch = { __name = "watch" }
  Watch.__index = Watch

  --- `watch(path)` → watch | nil, err: of a directory, or of the file of that name in its directory
  function fs.watch(path)
    check("watch", 1, path, "string")
    local found = fs.stat(path)
    local directory, name = path, nil
    if not found or found.type ~= "directory" then
      directory, name = path:match("^(.*)/([^/]+)$")
      if not directory then directory, name = ".", path end
      if directory == "" then directory = "/" end
    end
    local handle, why = raw.watch(directory)
    if not handle then return nil, why end
    return setmetatable({ handle = handle, name = name, first = 1, events = {} }, Watch)
  end

  --- `watch:read([ms])` → { kind, name } | nil, err
  function Watch:read(ms)
    while true do
      local event = self.events[self.first]
      if not event then
        local events, why = raw.watch_read(self.handle, ms)
        if not events then return nil, why end
        self.first, self.events = 1, events
      else
        self.first = self.first + 1
        local ours = not self.name or event.name == self.name or not event.name
        if ours then return event end
      end
    end
  end

  function Watch:close()
    self.first, self.events = 1, {}
    raw.watch_close(self.handle)
  end
  Watch.__close = Watch.close

  fs.EOF = errno.EOF
  return fs
end
