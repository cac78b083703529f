---@meta silly.worker

---The VMs of a program.
---@class silly.worker
---@field id integer
---@field count integer
---@field letters integer
local M = {}

---@param to integer
---@param channel string
---@param value any
---@return boolean
---@return string?
function M.send(to, channel, value) end

---@param channel string
---@param value any
---@return integer
function M.broadcast(channel, value) end

---@param channel string
---@param ms? integer
---@return any
---@return integer|string
function M.receive(channel, ms) end

---@param channel string
---@param value any
---@param from integer
function M.deliver(channel, value, from) end

return M
