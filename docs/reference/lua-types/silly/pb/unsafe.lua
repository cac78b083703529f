---@meta silly.pb.unsafe

---As in lua-protobuf, with strings where it has addresses.
---@class silly.pb.unsafe
local M = {}

---@param data any
---@return string
---@return integer
function M.touserdata(data) end

---@param type string
---@param data string
---@param size integer
---@param into? table
---@return table
function M.decode(type, data, size, into) end

---@param data string
---@param size integer
---@return silly.pb.slice.Slice
function M.slice(data, size) end

---@param scope string
---@return boolean
function M.use(scope) end

return M
