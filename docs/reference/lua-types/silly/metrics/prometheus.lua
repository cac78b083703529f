---@meta silly.metrics.prometheus

---A number that grows.
---@class silly.metrics.prometheus.Counter
local Counter = {}

function Counter:inc() end

---@param n number
function Counter:add(n) end

---@return number
function Counter:get() end

---@param ... any
---@return silly.metrics.prometheus.Counter
function Counter:labels(...) end

---A number that changes.
---@class silly.metrics.prometheus.Gauge
local Gauge = {}

---@param n number
function Gauge:set(n) end

function Gauge:inc() end

function Gauge:dec() end

---@param n number
function Gauge:add(n) end

---@param n number
function Gauge:sub(n) end

---@return number
function Gauge:get() end

---@param ... any
---@return silly.metrics.prometheus.Gauge
function Gauge:labels(...) end

---A distribution.
---@class silly.metrics.prometheus.Histogram
local Histogram = {}

---@param n number
function Histogram:observe(n) end

---The sum.
---@return number
function Histogram:get() end

---@param ... any
---@return silly.metrics.prometheus.Histogram
function Histogram:labels(...) end

---Metrics that all workers of a process share.
---@class silly.metrics.prometheus
---@field CONTENT_TYPE string
local M = {}

---@param name string
---@param help? string
---@param labels? string[]
---@return silly.metrics.prometheus.Counter
function M.counter(name, help, labels) end

---@param name string
---@param help? string
---@param labels? string[]
---@return silly.metrics.prometheus.Gauge
function M.gauge(name, help, labels) end

---@param name string
---@param help? string
---@param labels? string[]
---@param buckets? number[]
---@return silly.metrics.prometheus.Histogram
function M.histogram(name, help, labels, buckets) end

---@param collector silly.metrics.registry.Collector|function
function M.register(collector) end

---@return silly.metrics.registry.Registry
function M.registry() end

---The text format 0.0.4.
---@param registry? silly.metrics.registry.Registry
---@return string
function M.gather(registry) end

return M
