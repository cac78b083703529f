-- `sync.channel`: a queue that one task waits on.
--
-- A coroutine that is closed while it waits, like that of a disconnected client, leaves the queue.
return function()
  local task = require "silly.task"
  local time = require "silly.time"

  local Channel = {}
  Channel.__index = Channel

  --- `new([capacity])`: unbounded unless told otherwise; then `push` waits while it is full.
  function Channel.new(capacity)
    if capacity ~= nil and (math.type(capacity) ~= "integer" or capacity < 1) then
      error("bad argument #1 to 'new' (a positive integer expected)", 2)
    end
    return setmetatable({ first = 1, last = 0, capacity = capacity, pushers = {} }, Channel)
  end

  local function wake(place)
    place.over = true
    if task.status(place.task) == "WAIT" then task.wakeup(place.task) end
  end

  local function let_push(self)
    local pusher = table.remove(self.pushers, 1)
    if pusher then wake(pusher) end
  end

  --- Gives a value to the task that waits for one; false if there is none.
  local function hand_over(self, value)
    local waiter = self.waiter
    if not waiter then return false end
    self.waiter, waiter.value = nil, value
    wake(waiter)
    return true
  end

  -- A task that waits to push.
  local Pusher = {}
  function Pusher.__close(place)
    if place.resumed then return end
    local channel = place.channel
    -- The space that it was woken for is the next one's.
    if place.over then return let_push(channel) end
    for at, other in ipairs(channel.pushers) do
      if other == place then table.remove(channel.pushers, at) break end
    end
  end

  -- The task that waits for a value.
  local Popper = {}
  function Popper.__close(place)
    local channel = place.channel
    if place.session then time.cancel(place.session) end
    if channel.waiter == place then channel.waiter = nil end
    -- What it was handed before it could run stays the first value.
    if place.value and not place.taken and not hand_over(channel, place.value) then
      channel.first = channel.first - 1
      channel[channel.first] = place.value
    end
  end

  --- `push(value)` → ok, err: nil and false cannot be pushed.
  function Channel:push(value)
    if not value then return false, "cannot push nil or false" end
    while self.capacity and not self.closed and self.last - self.first + 1 >= self.capacity do
      local place <close> = setmetatable({ task = task.running(), channel = self }, Pusher)
      table.insert(self.pushers, place)
      while not place.over do task.wait() end
      place.resumed = true
    end
    if self.closed then return false, self.reason end
    if not hand_over(self, value) then
      self.last = self.last + 1
      self[self.last] = value
    end
    return true
  end

  --- `pop([ms])` → value, or nil and the reason: closed, timed out, or another task waits already.
  function Channel:pop(ms)
    if self.first <= self.last then
      local value = self[self.first]
      self[self.first] = nil
      self.first = self.first + 1
      let_push(self)
      return value
    end
    if self.closed then return nil, self.reason end
    if self.waiter then return nil, "Channel is mpsc" end
    local place <close> = setmetatable({ task = task.running(), channel = self }, Popper)
    self.waiter = place
    place.session = ms and time.after(ms, function()
      if place.over then return end
      self.waiter, place.session, place.why = nil, nil, time.TIMEDOUT
      wake(place)
    end)
    while not place.over do task.wait() end
    place.taken = true
    if place.value == nil then return nil, place.why end
    return place.value
  end

  --- `clear()`: drops the queued values.
  function Channel:clear()
    for at = self.first, self.last do self[at] = nil end
    self.first, self.last = 1, 0
    while self.pushers[1] do let_push(self) end
  end

  --- `close([reason])`: queued values can still be popped; after them `pop` returns nil, reason.
  function Channel:close(reason)
    if self.closed then return end
    self.closed = true
    self.reason = reason or "channel closed"
    local waiter = self.waiter
    if waiter then
      self.waiter, waiter.why = nil, self.reason
      wake(waiter)
    end
    while self.pushers[1] do let_push(self) end
  end

  --- Values that are queued.
  function Channel:size()
    return self.last - self.first + 1
  end

  return Channel
end
