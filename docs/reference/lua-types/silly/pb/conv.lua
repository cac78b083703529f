---@meta silly.pb.conv

---Integers of the wire format.
---@class silly.pb.conv
local M = {}

---@param value any
---@return any
function M.encode_int32(value) end

---@param value any
---@return any
function M.decode_int32(value) end

---@param value any
---@return any
function M.encode_uint32(value) end

---@param value any
---@return any
function M.decode_uint32(value) end

---@param value any
---@return any
function M.encode_sint32(value) end

---@param value any
---@return any
function M.decode_sint32(value) end

---@param value any
---@return any
function M.encode_sint64(value) end

---@param value any
---@return any
function M.decode_sint64(value) end

---@param value number
---@return any
function M.encode_float(value) end

---@param value any
---@return number
function M.decode_float(value) end

---@param value number
---@return any
function M.encode_double(value) end

---@param value any
---@return number
function M.decode_double(value) end

return M
