-- `sync.channel`: a queue that one task waits on.
return function()
  local task = require "silly.task"
  local time = require "silly.time"

  local Channel = {}
  Channel.__index = Channel
  local methods = { Channel = Channel }

  --- `new([capacity])`: unbounded unless told otherwise; then `push` waits while it is full.
  function methods.new(capacity)
    if capacity ~= nil and (math.type(capacity) ~= "integer" or capacity < 1) then
      error("bad argument #1 to 'new' (a positive integer expected)", 2)
    end
    return setmetatable({ first = 1, last = 0, capacity = capacity }, Channel)
  end

  --- `push(value)` → ok, err: nil and false cannot be pushed.
  function Channel:push(value)
    if not value then return false, "cannot push nil or false" end
    while self.capacity and not self.closed and self.last - self.first + 1 >= self.capacity do
      self.pushers = self.pushers or {}
      table.insert(self.pushers, task.running())
      task.wait()
    end
    if self.closed then return false, self.reason end
    local waiter = self.waiter
    if waiter then
      self.waiter = nil
      task.wakeup(waiter, value)
    else
      self.last = self.last + 1
      self[self.last] = value
    end
    return true
  end

  local function let_push(self)
    local pusher = self.pushers and table.remove(self.pushers, 1)
    if pusher then task.wakeup(pusher) end
  end

  --- `pop([ms])` → value, or nil and why: closed, timed out, or another task waits already.
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
    self.waiter = task.running()
    local session = ms and time.after(ms, function()
      local waiter = self.waiter
      self.waiter = nil
      task.wakeup(waiter, false)
    end)
    local value = task.wait()
    if value == nil then return nil, self.reason end
    if value == false then return nil, time.TIMEDOUT end
    if session then time.cancel(session) end
    return value
  end

  --- `clear()`: forgets what is queued.
  function Channel:clear()
    for at = self.first, self.last do self[at] = nil end
    self.first, self.last = 1, 0
    let_push(self)
  end

  --- `close([reason])`: what is queued can still be popped; after that `pop` gives nil, reason.
  function Channel:close(reason)
    if self.closed then return end
    self.closed = true
    self.reason = reason or "channel closed"
    local waiter = self.waiter
    if waiter then
      self.waiter = nil
      task.wakeup(waiter, nil)
    end
    for _, pusher in ipairs(self.pushers or {}) do task.wakeup(pusher) end
    self.pushers = nil
  end

  --- Values that are queued.
  function Channel:size()
    return self.last - self.first + 1
  end

  return { new = methods.new }
end
