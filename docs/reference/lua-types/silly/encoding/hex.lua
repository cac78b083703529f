---@meta silly.encoding.hex

---Bytes as hexadecimal digits.
---@class silly.encoding.hex
local M = {}

---@param data string
---@return string
function M.encode(data) end

---@param text string
---@return string?
---@return string?
function M.decode(text) end

return M
