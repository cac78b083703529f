---@meta silly.shared

---Values that all workers share.
---@class silly.shared
local M = {}

---@param key string
---@return any
function M.get(key) end

---@param key string
---@param value any
---@param ttl? number
---@return any
function M.set(key, value, ttl) end

---@param key string
---@param by? integer
---@param ttl? number
---@return integer
function M.add(key, by, ttl) end

---@param key string
---@return boolean
function M.delete(key) end

return M
