-- `metrics.prometheus`: counters, gauges and histograms by name.
return function(raw)
  local DEFAULT_BUCKETS = { 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10 }

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
    return metric.cell or error(("prometheus: '%s' has labels; which ones?"):format(metric.name), 3)
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
    -- The length says where a value ends, whatever stands in it.
    local key = count == 1 and values[1] or ("s4"):rep(count):pack(table.unpack(values))
    local child = self.children[key]
    if child then return child end
    local found, own = self.registry:cell(self.name, values)
    child = setmetatable({ name = self.name, cell = found, width = 0 }, getmetatable(self))
    -- Past the bound all share one, and remembering which series do would have no limit.
    if own then self.children[key] = child end
    return child
  end

  for _, methods in pairs(kinds) do methods.get, methods.labels = get, labels end

  local function strings(list)
    for at, name in ipairs(list) do
      if type(name) ~= "string" then error(("prometheus: label %d is no string"):format(at), 4) end
    end
    return list
  end

  local function declare(registry, kind, name, help, names, buckets)
    if type(name) ~= "string" then
      error(("bad argument #1 to '%s' (string expected, got %s)"):format(kind, type(name)), 3)
    end
    names = strings(names or {})
    registry:declare(name, kind, help or "", names, buckets or {})
    local metric = { name = name, registry = registry, width = #names, children = {} }
    if #names == 0 then metric.cell = registry:cell(name, {}) end
    return setmetatable(metric, kinds[kind])
  end

  --- The functions of a registry.
  local function functions(registry)
    local collectors = {}
    local made = {}

    --- `counter(name[, help[, labels]])`, `gauge(…)` → metric
    function made.counter(name, help, names)
      return declare(registry, "counter", name, help, names)
    end

    function made.gauge(name, help, names)
      return declare(registry, "gauge", name, help, names)
    end

    --- `histogram(name[, help[, labels[, buckets]]])`; as in Silly, buckets may stand in place of labels
    function made.histogram(name, help, names, buckets)
      if not buckets and names and type(names[1]) == "number" then names, buckets = nil, names end
      return declare(registry, "histogram", name, help, names, buckets or DEFAULT_BUCKETS)
    end

    --- `register(fn)`: called before the numbers are gathered, to set some.
    function made.register(fn)
      if type(fn) ~= "function" then
        error("bad argument #1 to 'register' (function expected, got " .. type(fn) .. ")", 2)
      end
      table.insert(collectors, fn)
    end

    function made.text()
      for _, collect in ipairs(collectors) do collect() end
      return registry:write()
    end

    return made
  end

  local own = functions(raw.own)
  local prometheus = {
    counter = own.counter,
    gauge = own.gauge,
    histogram = own.histogram,
    register = own.register,
    CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8",
  }

  --- `registry()`: numbers of its own, which the server does not show; methods as the functions here.
  function prometheus.registry()
    local made = functions(raw.registry())
    local registry = { text = made.text }
    for _, name in ipairs{ "counter", "gauge", "histogram", "register" } do
      registry[name] = function(_, ...) return made[name](...) end
    end
    return registry
  end

  --- `gather([registry])` → text
  function prometheus.gather(registry)
    return (registry or own).text()
  end

  return prometheus
end
