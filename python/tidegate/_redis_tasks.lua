-- Background jobs in Redis: one call of this script is one step of a job.
--
-- KEYS[1] begins all keys. ARGV: the process that calls, the milliseconds for which a job that it
-- takes is its own, a word, and what belongs to the word. The clock is that of Redis. A job is a
-- hash; sorted sets have the waiting jobs of each task by the time they are due, and the running
-- ones by the time at which they are given up.

local base, process, visibility_ms, word = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local JOBS, BYTES, OVERHEAD, SCHEDULES = 100000, 67108864, 256, 512
local PAYLOAD, NAME, KEY, RETRIES = 1048576, 512, 1024, 100
local TIME_MS, BACKOFF_MS, PERIOD_CHECK_MS, CRON_CHECK_MS = 2592000000, 3600000, 1000, 60000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function key(name) return base .. ':' .. name end
local function job_key(id) return key('job:' .. id) end
local function fail(text) return redis.error_reply('ERR ' .. text) end
local function wake(message) redis.call('PUBLISH', key('wake'), message or '') end

local function count(what, by)
  redis.call('HINCRBY', key('counts'), what, by or 1)
end

local function counted(what)
  return tonumber(redis.call('HGET', key('counts'), what) or '0')
end

local function insert(name, payload, due, options, is_periodic)
  local id = redis.call('INCR', key('last_id'))
  local bytes = #name + #payload + #(options.KEY or '') + OVERHEAD
  redis.call('HSET', job_key(id), 'name', name, 'payload', payload, 'bytes', bytes, 'attempts', 0,
    'retries', options.RETRIES or 0, 'backoff', options.BACKOFF or 0)
  if options.KEY then
    redis.call('HSET', job_key(id), 'key', options.KEY)
    redis.call('HSET', key('keys'), options.KEY, id)
  end
  if options.EXPIRES then
    redis.call('ZADD', key('expiring'), now + options.EXPIRES, id)
  end
  if is_periodic then
    redis.call('HSET', job_key(id), 'periodic', 1)
    redis.call('HSET', key('periodic'), name, id)
  end
  redis.call('ZADD', key('waiting:' .. name), due, id)
  count('jobs')
  count('bytes', bytes)
  return id
end

local function remove(id)
  local job = redis.call('HMGET', job_key(id), 'name', 'key', 'bytes', 'periodic')
  if not job[1] then return end
  redis.call('DEL', job_key(id))
  redis.call('ZREM', key('waiting:' .. job[1]), id)
  redis.call('ZREM', key('running'), id)
  redis.call('ZREM', key('expiring'), id)
  if job[2] then redis.call('HDEL', key('keys'), job[2]) end
  if job[4] then redis.call('HDEL', key('periodic'), job[1]) end
  count('jobs', -1)
  count('bytes', -tonumber(job[3]))
end

local function wait_until(id, due)
  redis.call('ZREM', key('running'), id)
  redis.call('HDEL', job_key(id), 'process')
  redis.call('ZADD', key('waiting:' .. redis.call('HGET', job_key(id), 'name')), due, id)
  wake()
end

-- The milliseconds until the next attempt; -1 without one, -2 for a job that was cancelled.
local function failed(id)
  local job = redis.call('HMGET', job_key(id), 'attempts', 'retries', 'backoff', 'cancelled')
  if job[4] then
    remove(id)
    count('cancelled')
    return -2
  end
  local attempts = tonumber(job[1])
  if attempts > tonumber(job[2]) then
    remove(id)
    count('failed')
    return -1
  end
  local pause = math.min(tonumber(job[3]) * 2 ^ math.min(attempts - 1, 20), BACKOFF_MS)
  count('retried')
  wait_until(id, now + pause)
  return pause
end

local function is_mine(id)
  return redis.call('HGET', job_key(id), 'process') == process
end

-- Gives up some jobs: running ones of processes that have not reported, and waiting ones that
-- have expired.
local function clean()
  local function over(set)
    return ipairs(redis.call('ZRANGEBYSCORE', key(set), '-inf', now, 'LIMIT', 0, 16))
  end
  for _, id in over('running') do
    count('lost')
    failed(id)
  end
  for _, id in over('expiring') do
    remove(id)
    count('expired')
  end
end

-- The first time of a schedule after `after`; `upcoming` are the next ones of a cron expression.
local function following(period, upcoming, due, after)
  local every = tonumber(period:match('^every (%d+)$'))
  if every then
    return due + (math.floor((after - due) / every) + 1) * every
  end
  for one in upcoming:gmatch('%d+') do
    if tonumber(one) > after then return tonumber(one) end
  end
  return after + CRON_CHECK_MS
end

local function schedule_of(name, period)
  local stored = redis.call('HGET', key('schedules'), name)
  local due, known = (stored or ''):match('^(%d+) (.*)$')
  return known == period and tonumber(due) or nil
end

local function set_schedule(name, period, due)
  redis.call('HSET', key('schedules'), name, string.format('%d %s', due, period))
end

local words = {}

function words.ADD()
  local name, payload, options = ARGV[4], ARGV[5], {}
  if #name == 0 or #name > NAME then
    return fail('the name of a task has 1 to ' .. NAME .. ' bytes')
  end
  if #payload > PAYLOAD then
    return fail('the arguments of a task have at most ' .. PAYLOAD .. ' bytes')
  end
  for at = 6, #ARGV, 2 do
    options[ARGV[at]] = ARGV[at] == 'KEY' and ARGV[at + 1] or tonumber(ARGV[at + 1])
  end
  for _, option in ipairs({ 'DELAY', 'EXPIRES', 'BACKOFF' }) do
    if (options[option] or 0) > TIME_MS then
      return fail('a time of a task is at most 30 days')
    end
  end
  if (options.RETRIES or 0) > RETRIES then
    return fail('a task has at most ' .. RETRIES .. ' retries')
  end
  if options.KEY and (#options.KEY == 0 or #options.KEY > KEY) then
    return fail('a key has 1 to ' .. KEY .. ' bytes')
  end
  if options.KEY and redis.call('HEXISTS', key('keys'), options.KEY) == 1 then
    return false
  end
  local bytes = #name + #payload + #(options.KEY or '') + OVERHEAD
  if counted('jobs') >= JOBS or counted('bytes') + bytes > BYTES then
    count('rejected')
    return redis.error_reply('FULL too many jobs are waiting')
  end
  local id = insert(name, payload, now + (options.DELAY or 0), options)
  wake()
  return id
end

-- name, period, upcoming
function words.EVERY()
  local name, period, upcoming = ARGV[4], ARGV[5], ARGV[6]
  if schedule_of(name, period) then return 1 end
  if redis.call('HEXISTS', key('schedules'), name) == 0
    and redis.call('HLEN', key('schedules')) >= SCHEDULES then
    return fail('too many periodic tasks')
  end
  set_schedule(name, period, following(period, upcoming, now, now))
  return 1
end

-- Begins the periodic job of a task if it is due; returns when to look at it again.
local function begin_period(name, period, upcoming)
  local due = schedule_of(name, period)
  if not due then return nil end
  local runs = redis.call('HEXISTS', key('periodic'), name) == 1
  if due <= now and not runs then
    insert(name, '', due, {}, true)
    due, runs = following(period, upcoming, due, math.max(now, due)), true
    set_schedule(name, period, due)
  end
  -- The end of a run is not announced: the next check is soon.
  if runs then return math.max(due - now, PERIOD_CHECK_MS) end
  return math.min(due - now, CRON_CHECK_MS)
end

-- number of periodic tasks, name, period and upcoming of each, names of all tasks
function words.TAKE()
  local after_ms, at = nil, 5
  local function within(ms)
    if ms and (not after_ms or ms < after_ms) then after_ms = ms end
  end
  for _ = 1, tonumber(ARGV[4]) do
    within(begin_period(ARGV[at], ARGV[at + 1], ARGV[at + 2]))
    at = at + 3
  end
  local first_due, first_id, first_name
  for at = at, #ARGV do
    local first = redis.call('ZRANGE', key('waiting:' .. ARGV[at]), 0, 0, 'WITHSCORES')
    local due = tonumber(first[2])
    if due and (not first_due or due < first_due) then
      first_due, first_id, first_name = due, first[1], ARGV[at]
    end
  end
  if not first_due or first_due > now then
    within(first_due and first_due - now)
    local given_up = redis.call('ZRANGE', key('running'), 0, 0, 'WITHSCORES')[2]
    within(given_up and math.max(tonumber(given_up) - now, 0) + 1)
    return after_ms or false
  end
  redis.call('ZREM', key('waiting:' .. first_name), first_id)
  redis.call('ZREM', key('expiring'), first_id)
  redis.call('ZADD', key('running'), now + visibility_ms, first_id)
  redis.call('HSET', job_key(first_id), 'process', process)
  local attempt = redis.call('HINCRBY', job_key(first_id), 'attempts', 1)
  local payload = redis.call('HGET', job_key(first_id), 'payload')
  return { tonumber(first_id), first_name, payload, attempt }
end

function words.DONE()
  if not is_mine(ARGV[4]) then return 0 end
  remove(ARGV[4])
  count('done')
  return 1
end

function words.FAIL()
  return is_mine(ARGV[4]) and failed(ARGV[4])
end

function words.RETURN()
  local id = ARGV[4]
  if not is_mine(id) then return 0 end
  if redis.call('HEXISTS', job_key(id), 'cancelled') == 1 then
    remove(id)
    count('cancelled')
    return 1
  end
  redis.call('HINCRBY', job_key(id), 'attempts', -1)
  wait_until(id, now)
  return 1
end

-- Keeps running jobs; returns those that were cancelled.
function words.RENEW()
  local cancelled = {}
  for at = 4, #ARGV do
    local id = ARGV[at]
    if is_mine(id) then
      redis.call('ZADD', key('running'), 'XX', now + visibility_ms, id)
      if redis.call('HEXISTS', job_key(id), 'cancelled') == 1 then
        cancelled[#cancelled + 1] = tonumber(id)
      end
    end
  end
  return cancelled
end

function words.CANCEL()
  local id = ARGV[4]
  if redis.call('EXISTS', job_key(id)) == 0 then return 0 end
  if redis.call('ZSCORE', key('running'), id) then
    redis.call('HSET', job_key(id), 'cancelled', 1)
    wake(id)
    return 2
  end
  remove(id)
  count('cancelled')
  return 1
end

function words.FIND()
  local attempts = redis.call('HGET', job_key(ARGV[4]), 'attempts')
  if not attempts then return false end
  local runs = redis.call('ZSCORE', key('running'), ARGV[4])
  return { runs and 'running' or 'waiting', tonumber(attempts) }
end

function words.STATS()
  local running = redis.call('ZCARD', key('running'))
  local numbers = { counted('jobs') - running, running }
  for _, what in ipairs({
    'done', 'failed', 'retried', 'lost', 'expired', 'cancelled', 'rejected',
  }) do
    numbers[#numbers + 1] = counted(what)
  end
  return numbers
end

clean()
return words[word]()
