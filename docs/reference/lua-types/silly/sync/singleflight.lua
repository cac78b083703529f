---@meta silly.sync.singleflight

---Calls in flight.
---@class silly.sync.singleflight.Group
local Group = {}

---@param key any
---@param ... any
---@return any ...
function Group:call(key, ...) end

---Concurrent calls with one key share one execution.
---@class silly.sync.singleflight
local M = {}

---@param fn function
---@return silly.sync.singleflight.Group
function M.new(fn) end

---@param object silly.sync.singleflight.Group
---@param key any
---@param ... any
---@return any ...
function M.call(object, key, ...) end

return M
