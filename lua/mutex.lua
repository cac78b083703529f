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
  local function pass_on(locks, key)
    local lock = locks[key]
    local heir = table.remove(lock.waiting, 1)
    if not heir then
      locks[key] = nil
      return
    end
    lock.owner, lock.depth, heir.granted = heir.task, 1, true
    if task.status(heir.task) == "WAIT" then task.wakeup(heir.task) end
  end

  --- `unlock()`: once for each `lock`; a further call does nothing.
  function Held:unlock()
    local locks, key = self.locks, self.key
    if not locks then return end
    self.locks = nil
    local lock = locks[key]
    lock.depth = lock.depth - 1
    if lock.depth == 0 then pass_on(locks, key) end
  end

  Held.__close = Held.unlock

  -- An entry of the queue.
  local Place = {}
  function Place.__close(place)
    if place.taken then return end
    -- A lock that was granted before the task could run belongs to the next one.
    if place.granted then return pass_on(place.locks, place.key) end
    local waiting = place.locks[place.key].waiting
    for at, other in ipairs(waiting) do
      if other == place then table.remove(waiting, at) break end
    end
  end

  --- `lock(key)`: waits until no other task holds the key; the same task may lock it again.
  function Mutex:lock(key)
    local me, locks = task.running(), self.locks
    -- A holder that failed or was closed without `unlock` does not hold the lock any more.
    if locks[key] and not task.status(locks[key].owner) then pass_on(locks, key) end
    local lock = locks[key]
    if not lock then
      locks[key] = { owner = me, depth = 1, waiting = {} }
    elseif lock.owner == me then
      lock.depth = lock.depth + 1
    else
      local place <close> = setmetatable({ task = me, locks = locks, key = key }, Place)
      table.insert(lock.waiting, place)
      while not place.granted do task.wait() end
      place.taken = true
    end
    return setmetatable({ locks = locks, key = key }, Held)
  end

  --- `new()` → mutex
  function Mutex.new()
    return setmetatable({ locks = {} }, Mutex)
  end

  return Mutex
end
