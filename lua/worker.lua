-- `worker`: channels between the VMs of a program. Called with id, count and send_raw.
return function(worker)
  local task = require "silly.task"
  local time = require "silly.time"
  local send_raw = worker.send_raw
  worker.send_raw = nil

  -- Per channel: values that were not taken, and waiting tasks, in order of arrival.
  local channels = {}

  local function channel_of(name)
    if type(name) ~= "string" then
      error("a channel is named by a string, not a " .. type(name), 3)
    end
    local channel = channels[name]
    if not channel then
      channel = { values = {}, first = 1, last = 0, waiting = {} }
      channels[name] = channel
    end
    return channel
  end

  local function leave(waiter)
    local waiting = waiter.channel.waiting
    for at, other in ipairs(waiting) do
      if other == waiter then table.remove(waiting, at) break end
    end
  end

  local function settle(waiter, letter)
    leave(waiter)
    waiter.over, waiter.letter = true, letter
    if task.status(waiter.task) == "WAIT" then task.wakeup(waiter.task) end
  end

  -- A task that waits, until it has a message, its time is up, or it is closed.
  local Waiter = {}
  function Waiter.__close(waiter)
    if waiter.session then time.cancel(waiter.session) end
    leave(waiter)
    if not waiter.letter or waiter.taken then return end
    -- A message that it got before it could run is the next one's, or the first that is taken.
    local channel = waiter.channel
    local heir = channel.waiting[1]
    if heir then return settle(heir, waiter.letter) end
    channel.first = channel.first - 1
    channel.values[channel.first] = waiter.letter
  end

  --- `send(to, channel, value)` → ok, err: to the VM with that id (1 to `worker.count`).
  function worker.send(to, channel, value)
    channel_of(channel)
    if send_raw(to, channel, value) then return true end
    if math.type(to) ~= "integer" or to < 1 or to > worker.count then
      return false, "there is no worker " .. tostring(to)
    end
    return false, "the mailbox of worker " .. to .. " is full"
  end

  --- `broadcast(channel, value)` → number of VMs that get it: all but this one.
  function worker.broadcast(channel, value)
    local reached = 0
    for id = 1, worker.count do
      if id ~= worker.id and worker.send(id, channel, value) then reached = reached + 1 end
    end
    return reached
  end

  --- `receive(channel[, ms])` → value, from; or nil, "timeout"
  function worker.receive(name, ms)
    local channel = channel_of(name)
    if channel.first <= channel.last then
      local letter = channel.values[channel.first]
      channel.values[channel.first] = nil
      channel.first = channel.first + 1
      return letter[1], letter[2]
    end
    local waiter <close> = setmetatable({ task = task.running(), channel = channel }, Waiter)
    table.insert(channel.waiting, waiter)
    waiter.session = ms and time.after(ms, function()
      waiter.session = nil
      settle(waiter)
    end)
    while not waiter.over do task.wait() end
    waiter.taken = true
    local letter = waiter.letter
    if not letter then return nil, "timeout" end
    return letter[1], letter[2]
  end

  function worker.deliver(name, value, from)
    local channel = channel_of(name)
    local waiter = channel.waiting[1]
    if waiter then
      settle(waiter, { value, from })
    elseif channel.last - channel.first + 1 >= worker.letters then
      task.error(("worker: no task receives from channel '%s', message dropped"):format(name))
    else
      channel.last = channel.last + 1
      channel.values[channel.last] = { value, from }
    end
  end

  return worker
end
