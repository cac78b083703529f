---@meta silly.encoding.base64

---Bytes as text (RFC 4648).
---@class silly.encoding.base64
local M = {}

---@param data string
---@return string
function M.encode(data) end

---@param data string
---@return string
function M.urlsafe_encode(data) end

---Skips other characters.
---@param text string
---@return string
function M.decode(text) end

---@param text string
---@return string
function M.urlsafe_decode(text) end

---@param text string
---@return string?
---@return string?
function M.decode_strict(text) end

---@param text string
---@return string?
---@return string?
function M.urlsafe_decode_strict(text) end

return M
