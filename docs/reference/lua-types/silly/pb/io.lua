---@meta silly.pb.io

---Whole files of bytes.
---@class silly.pb.io
local M = {}

---@param name? string
---@return string?
---@return string?
---@return integer?
function M.read(name) end

---@param ... any
---@return boolean?
---@return string?
---@return integer?
function M.write(...) end

---@param name string
---@param ... any
---@return boolean?
---@return string?
---@return integer?
function M.dump(name, ...) end

return M
