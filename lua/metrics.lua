-- `metrics`: metrics that are not shared by workers, their registries, and collectors; as text in
-- the Prometheus format 0.0.4. The modules `metrics.counter` … are its fields.
return function(raw)
  local DEFAULT_BUCKETS = { 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10 }
  -- Further label sets add up under the label value "other".
  local SERIES = 4096

  local metrics = { DEFAULT_BUCKETS = DEFAULT_BUCKETS }

  local ESCAPES = { ["\\"] = "\\\\", ["\n"] = "\\n", ['"'] = '\\"' }

  -- `labels.key(cache, names, values)` → `name="value",…`; the cache is not needed any more.
  local labels = {}
  function labels.key(_, names, values)
    local parts = {}
    for at, name in ipairs(names) do
      local value = values[at]
      if value == nil then error(("metrics: no value for the label '%s'"):format(name), 3) end
      parts[at] = name .. '="' .. tostring(value):gsub('[\\\n"]', ESCAPES) .. '"'
    end
    return table.concat(parts, ",")
  end
  metrics.labels = labels

  local function number(name, value)
    if type(value) ~= "number" then
      error(("bad argument #1 to '%s' (number expected, got %s)"):format(name, type(value)), 3)
    end
    return value
  end

  local function check_name(name, pattern, what)
    if type(name) ~= "string" or not name:match(pattern) then
      error(("metrics: '%s' is not the name of a %s"):format(tostring(name), what), 4)
    end
  end

  --- Makes the module of a kind: `module(name, help[, labelnames[, buckets]]) → metric`, with `start`
  --- giving the fields of a series.
  local function kind_of(kind, methods, start)
    methods.__index = methods

    --- `metric:collect(list)`: appends the metric.
    function methods:collect(list) list[#list + 1] = self end

    --- `metric:labels(value, …)` → the series with these label values
    function methods:labels(...)
      local names = self.labelnames
      if not names then error(("metrics: '%s' has no labels"):format(self.name), 2) end
      local key = labels.key(nil, names, { ... })
      local found = self.metrics[key]
      if found then return found end
      if self.count_of_series >= SERIES then
        local others = {}
        for at = 1, #names do others[at] = "other" end
        key = labels.key(nil, names, others)
        found = self.metrics[key]
        if found then return found end
      end
      self.count_of_series = self.count_of_series + 1
      found = setmetatable(start(self), methods)
      self.metrics[key] = found
      return found
    end

    local function new(_, name, help, labelnames, buckets)
      check_name(name, "^[%a_:][%w_:]*$", "metric")
      if kind == "histogram" and not buckets and labelnames and type(labelnames[1]) == "number" then
        labelnames, buckets = nil, labelnames
      end
      local metric = { name = name, help = help or "", kind = kind }
      if kind == "histogram" then
        metric.buckets = table.move(buckets or DEFAULT_BUCKETS, 1, #(buckets or DEFAULT_BUCKETS), 1, {})
        table.sort(metric.buckets)
      end
      if labelnames then
        for _, label in ipairs(labelnames) do check_name(label, "^[%a_][%w_]*$", "label") end
        metric.labelnames, metric.metrics, metric.count_of_series = labelnames, {}, 0
      else
        for field, value in pairs(start(metric)) do metric[field] = value end
      end
      return setmetatable(metric, methods)
    end
    metrics[kind] = setmetatable({}, { __call = new })
  end

  local function zero() return { value = 0 } end

  local Counter, Gauge, Histogram = {}, {}, {}
  function Counter:inc() self.value = self.value + 1 end
  function Counter:add(n)
    if number("add", n) < 0 or n ~= n then error("bad argument #1 to 'add' (a counter never falls)", 2) end
    self.value = self.value + n
  end
  function Gauge:set(n) self.value = number("set", n) end
  function Gauge:inc() self.value = self.value + 1 end
  function Gauge:dec() self.value = self.value - 1 end
  function Gauge:add(n) self.value = self.value + number("add", n) end
  function Gauge:sub(n) self.value = self.value - number("sub", n) end

  function Histogram:observe(n)
    self.sum, self.count = self.sum + number("observe", n), self.count + 1
    for at, bound in ipairs(self.buckets) do
      if n <= bound then
        self.bucketcounts[at] = self.bucketcounts[at] + 1
        return
      end
    end
  end

  kind_of("counter", Counter, zero)
  kind_of("gauge", Gauge, zero)
  kind_of("histogram", Histogram, function(metric)
    local counts = {}
    for at = 1, #metric.buckets do counts[at] = 0 end
    return { buckets = metric.buckets, bucketcounts = counts, sum = 0, count = 0 }
  end)

  local Registry = {}
  Registry.__index = Registry

  --- `register(collector)`: a metric, an object with `collect(self, list)`, or a function that is called
  --- before the metrics are read.
  function Registry:register(collector)
    if type(collector) == "function" then
      local update = collector
      collector = { collect = function() update() end }
    elseif type(collector) ~= "table" or type(collector.collect) ~= "function" then
      error("bad argument #1 to 'register' (an object with collect, or a function, expected)", 2)
    end
    for _, known in ipairs(self) do
      if known == collector then return end
    end
    self[#self + 1] = collector
  end

  --- `unregister(collector)`
  function Registry:unregister(collector)
    for at, known in ipairs(self) do
      if known == collector then return table.remove(self, at) and nil end
    end
  end

  --- `collect()` → the metrics of all collectors
  function Registry:collect()
    local list = {}
    for _, collector in ipairs(self) do collector:collect(list) end
    return list
  end

  metrics.registry = { new = function() return setmetatable({}, Registry) end }

  local function shown(value)
    if value == math.huge then return "+Inf" end
    if value == -math.huge then return "-Inf" end
    if value ~= value then return "NaN" end
    return tostring(math.tointeger(value) or value)
  end

  local function write_series(out, metric, key, series)
    local function line(suffix, more, value)
      local all = key ~= "" and more ~= "" and key .. "," .. more or key .. more
      out[#out + 1] = ("%s%s%s %s\n"):format(metric.name, suffix, all ~= "" and "{" .. all .. "}" or "", shown(value))
    end
    if metric.kind ~= "histogram" then return line("", "", series.value) end
    local below = 0
    for at, bound in ipairs(series.buckets) do
      below = below + series.bucketcounts[at]
      line("_bucket", 'le="' .. shown(bound) .. '"', below)
    end
    line("_bucket", 'le="+Inf"', series.count)
    line("_sum", "", series.sum)
    line("_count", "", series.count)
  end

  --- `format(list)` → text. A family that is collected twice has one header.
  function metrics.format(list)
    local out, written = {}, {}
    for _, metric in ipairs(list) do
      local name = metric.name
      if not written[name] then
        written[name] = true
        local help = (metric.help or ""):gsub("[\\\n]", ESCAPES)
        out[#out + 1] = ("# HELP %s %s\n# TYPE %s %s\n"):format(name, help, name, metric.kind)
        local keys = {}
        for key in pairs(metric.metrics or {}) do keys[#keys + 1] = key end
        table.sort(keys)
        for _, key in ipairs(keys) do write_series(out, metric, key, metric.metrics[key]) end
        if not metric.metrics then write_series(out, metric, "", metric) end
      end
    end
    return table.concat(out)
  end

  --- Makes a collector module: `new()` → collector. Each row has a metric's name, kind, help and value.
  local function collector_of(name, rows)
    local module = {}
    function module.new()
      local own = {}
      for at, row in ipairs(rows) do own[at] = metrics[row[2]](row[1], row[3]) end
      return {
        name = name,
        new = module.new,
        collect = function(_, list)
          for at, row in ipairs(rows) do
            own[at].value = row[4]()
            list[#list + 1] = own[at]
          end
        end,
      }
    end
    return module
  end

  local process, task = require "silly.process", require "silly.task"
  local function second(call)
    return function() return (select(2, call())) end
  end
  local function first(call)
    return function() return (call()) end
  end
  metrics.process = collector_of("Process", {
    { "process_cpu_seconds_user", "counter", "User CPU time in seconds.", first(process.cpu) },
    { "process_cpu_seconds_system", "counter", "System CPU time in seconds.", second(process.cpu) },
    { "process_resident_memory_bytes", "gauge", "Resident memory in bytes.", first(process.memory) },
    { "process_heap_bytes", "gauge", "Memory of this worker's Lua in bytes.", second(process.memory) },
    { "process_open_fds", "gauge", "Open file descriptors.", first(process.descriptors) },
    { "process_max_fds", "gauge", "Most file descriptors allowed.", second(process.descriptors) },
  })
  metrics.silly = collector_of("Silly", {
    { "silly_tasks_runnable", "gauge", "Coroutines that are ready to run.", task.readycount },
    { "silly_tcp_connections", "gauge", "Open TCP connections of this worker.", raw.connections },
    { "silly_timer_pending", "gauge", "Timers that are set.", first(raw.timers) },
    { "silly_timer_scheduled_total", "counter", "Timers that were set.", second(raw.timers) },
  })
  -- The allocator is mimalloc, which has none of the numbers of jemalloc.
  metrics.jemalloc = collector_of("Jemalloc", {})

  return metrics
end
