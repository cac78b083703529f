---@meta silly.env

---Settings of the program.
---@class silly.env
local M = {}

---@param key string
---@return string?
function M.get(key) end

---@param key string
---@param value? string
function M.set(key, value) end

---Loads a file of settings; returns an error.
---@param file string
---@return string?
function M.load(file) end

return M
