-- `metrics.prometheus`: counters, gauges and histograms by name, which the workers of a process share.
return function(raw)
  local metrics = require "silly.metrics"

  local function number(name, value)
    if type(value) ~= "number" then
      error(("bad argument #1 to '%s' (number expected, got %s)"):format(name, type(value)), 3)
    end
    return value
  end

  local kinds = { counter = {}, gauge = {}, histogram = {} }
  for _, methods in pairs(kinds) do methods.__index = methods end
  local Counter, Gauge, Histogram = kinds.counter, kinds.gauge, kinds.histogram

  --- A metric with labels has no number of its own.
  local function cell(metric)
    return metric.cell or error(("prometheus: '%s' has labels: use labels(…)"):format(metric.name), 3)
  end

  function Counter:inc() cell(self):add(1) end

  --- `counter:add(n)`: a counter never falls.
  function Counter:add(n)
    if number("add", n) < 0 or n ~= n then error("bad argument #1 to 'add' (a counter never falls)", 2) end
    cell(self):add(n)
  end

  function Gauge:set(n) cell(self):set(number("set", n)) end
  function Gauge:add(n) cell(self):add(number("add", n)) end
  function Gauge:sub(n) cell(self):add(-number("sub", n)) end
  function Gauge:inc() cell(self):add(1) end
  function Gauge:dec() cell(self):add(-1) end

  function Histogram:observe(n) cell(self):observe(number("observe", n)) end

  --- `metric:get()`: the number; of a histogram the sum.
  local function get(self) return cell(self):get() end

  --- `metric:labels(value, ...)`: the metric of these values, in the order of the names.
  local function labels(self, ...)
    local count = select("#", ...)
    if count ~= self.width or self.cell then
      error(("prometheus: '%s' has %d labels, got %d"):format(self.name, self.width, count), 2)
    end
    local values = { ... }
    for at = 1, count do values[at] = tostring(values[at]) end
    -- The length marks the end of a value, whatever bytes it has.
    local key = count == 1 and values[1] or ("s4"):rep(count):pack(table.unpack(values))
    local child = self.children[key]
    if child then return child end
    local found, own = self.registry:cell(self.name, values)
    child = setmetatable({ name = self.name, cell = found, width = 0, values = values }, getmetatable(self))
    -- Beyond the limit all share one series; a list of them would be unbounded.
    if own then self.children[key] = child end
    return child
  end

  -- The numbers of one series, in the form of `metrics`.
  local function numbers(metric, buckets)
    local value = metric.cell:get()
    if not buckets then return { value = value } end
    local counts, count = metric.cell:buckets(), 0
    for _, n in ipairs(counts) do count = count + n end
    return { buckets = buckets, bucketcounts = counts, sum = value, count = count }
  end

  --- `metric:collect(list)`: appends the current values of the label sets that this worker has used.
  local function collect(self, list)
    local found = { metrics = not self.cell and {} or nil }
    if self.cell then found = numbers(self, self.buckets) end
    for _, child in pairs(self.children) do
      found.metrics[metrics.labels.key(nil, self.names, child.values)] = numbers(child, self.buckets)
    end
    found.name, found.help, found.kind = self.name, self.help, self.kind
    list[#list + 1] = found
  end

  for _, methods in pairs(kinds) do
    methods.get, methods.labels, methods.collect = get, labels, collect
  end

  local function strings(list)
    for at, name in ipairs(list) do
      if type(name) ~= "string" then error(("prometheus: label %d is not a string"):format(at), 4) end
    end
    return list
  end

  local function declare(registry, kind, name, help, names, buckets)
    if type(name) ~= "string" then
      error(("bad argument #1 to '%s' (string expected, got %s)"):format(kind, type(name)), 3)
    end
    names = strings(names or {})
    registry:declare(name, kind, help or "", names, buckets or {})
    local metric = {
      name = name, kind = kind, help = help or "", names = names, buckets = buckets,
      registry = registry, width = #names, children = {},
    }
    if #names == 0 then metric.cell = registry:cell(name, {}) end
    return setmetatable(metric, kinds[kind])
  end

  local default = metrics.registry.new()
  default:register(require "silly.metrics.collector.silly".new())
  default:register(require "silly.metrics.collector.process".new())

  local prometheus = { CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8" }

  --- `counter(name[, help[, labels]])`, `gauge(…)` → metric
  function prometheus.counter(name, help, names)
    return declare(raw.own, "counter", name, help, names)
  end

  function prometheus.gauge(name, help, names)
    return declare(raw.own, "gauge", name, help, names)
  end

  --- `histogram(name[, help[, labels[, buckets]]])`; as in Silly, buckets may be given in place of labels
  function prometheus.histogram(name, help, names, buckets)
    if not buckets and names and type(names[1]) == "number" then names, buckets = nil, names end
    return declare(raw.own, "histogram", name, help, names, buckets or metrics.DEFAULT_BUCKETS)
  end

  --- `register(collector)` is `registry():register(collector)`.
  function prometheus.register(collector) default:register(collector) end

  --- `registry()`: the registry of the collectors that `gather()` reads.
  function prometheus.registry() return default end

  --- `gather([registry])` → text
  function prometheus.gather(registry)
    local list = (registry or default):collect()
    if registry and registry ~= default then return metrics.format(list) end
    return raw.own:write() .. metrics.format(list)
  end

  return prometheus
end
