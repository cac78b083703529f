---@meta silly.process

---Information on the process.
---@class silly.process
---@field pid integer
local M = {}

---@return string
function M.hostname() end

---@return string
function M.cwd() end

---@param name string
---@return string?
function M.env(name) end

---Milliseconds.
---@return integer
function M.uptime() end

---Seconds of user and system time.
---@return number
---@return number
function M.cpu() end

---Resident bytes, and those of Lua.
---@return integer
---@return integer
function M.memory() end

---Open ones, and the limit.
---@return integer
---@return integer
function M.descriptors() end

return M
