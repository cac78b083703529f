-- `sync.mutex`: one holder for each key, first come first served.
return function()
  local task = require "silly.task"

  local Mutex = {}
  Mutex.__index = Mutex
  local Held = {}
  Held.__index = Held

  --- `unlock()`: once for each `lock`; a further call does nothing.
  function Held:unlock()
    local mutex, key = self.mutex, self.key
    if not mutex then return end
    self.mutex = nil
    local lock = mutex[key]
    lock.depth = lock.depth - 1
    if lock.depth > 0 then return end
    local heir = table.remove(lock.waiting, 1)
    if heir then
      lock.owner, lock.depth = heir, 1
      task.wakeup(heir)
    else
      mutex[key] = nil
    end
  end

  Held.__close = Held.unlock

  --- `lock(key)`: waits until no other task holds the key; the same task may lock it again.
  function Mutex:lock(key)
    local me = task.running()
    local lock = self[key]
    if not lock then
      self[key] = { owner = me, depth = 1, waiting = {} }
    elseif lock.owner == me then
      lock.depth = lock.depth + 1
    else
      table.insert(lock.waiting, me)
      task.wait()
    end
    return setmetatable({ mutex = self, key = key }, Held)
  end

  return {
    --- `new()` → mutex
    new = function() return setmetatable({}, Mutex) end,
  }
end
