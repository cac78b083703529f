-- `sync.mutex`: one holder for each key; waiting tasks get the lock in order.
--
-- A coroutine that is closed while it waits, like that of a disconnected client, leaves the queue.
return function()
  local task = require "silly.task"

  local Mutex = {}
  Mutex.__index = Mutex
  local Held = {}
  Held.__index = Held

  --- Passes the lock to the first task that still waits.
  local function pass_on(mutex, key)
    local lock = mutex[key]
    local heir = table.remove(lock.waiting, 1)
    if not heir then
      mutex[key] = nil
      return
    end
    lock.owner, lock.depth, heir.granted = heir.task, 1, true
    if task.status(heir.task) == "WAIT" then task.wakeup(heir.task) end
  end

  --- `unlock()`: once for each `lock`; a further call does nothing.
  function Held:unlock()
    local mutex, key = self.mutex, self.key
    if not mutex then return end
    self.mutex = nil
    local lock = mutex[key]
    lock.depth = lock.depth - 1
    if lock.depth == 0 then pass_on(mutex, key) end
  end

  Held.__close = Held.unlock

  -- An entry of the queue.
  local Place = {}
  function Place.__close(place)
    if place.granted then return end
    for at, other in ipairs(place.waiting) do
      if other == place then table.remove(place.waiting, at) break end
    end
  end

  --- `lock(key)`: waits until no other task holds the key; the same task may lock it again.
  function Mutex:lock(key)
    local me = task.running()
    -- A holder that was closed without `unlock` does not hold the lock any more.
    if self[key] and not task.status(self[key].owner) then pass_on(self, key) end
    local lock = self[key]
    if not lock then
      self[key] = { owner = me, depth = 1, waiting = {} }
    elseif lock.owner == me then
      lock.depth = lock.depth + 1
    else
      local place <close> = setmetatable({ task = me, waiting = lock.waiting }, Place)
      table.insert(lock.waiting, place)
      while not place.granted do task.wait() end
    end
    return setmetatable({ mutex = self, key = key }, Held)
  end

  --- `new()` → mutex
  function Mutex.new()
    return setmetatable({}, Mutex)
  end

  return Mutex
end
