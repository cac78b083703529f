---@meta silly.metrics.registry

---A registry of collectors.
---@class silly.metrics.registry.Registry
local Registry = {}

---@param collector silly.metrics.registry.Collector|function
function Registry:register(collector) end

---@param collector silly.metrics.registry.Collector|function
function Registry:unregister(collector) end

---@return table[]
function Registry:collect() end

---Gathers metrics.
---@class silly.metrics.registry.Collector
local Collector = {}

---@return table[]
function Collector:collect() end

---Registries of collectors.
---@class silly.metrics.registry
local M = {}

---@return silly.metrics.registry.Registry
function M.new() end

return M
