---@meta silly.pb.slice

---A view of bytes.
---@class silly.pb.slice.Slice
local Slice = {}

---@param format string
---@param ... any
---@return any ...
function Slice:unpack(format, ...) end

---@param data? any
---@param i? integer
---@param j? integer
---@return silly.pb.slice.Slice
function Slice:reset(data, i, j) end

function Slice:delete() end

---@param i? integer
---@param j? integer
---@return silly.pb.slice.Slice
function Slice:enter(i, j) end

---@param count? integer
---@return silly.pb.slice.Slice
---@return integer
function Slice:leave(count) end

---@param n? integer
---@return integer?
---@return integer?
---@return integer?
function Slice:level(n) end

---@param i? integer
---@param j? integer
---@return string
function Slice:tohex(i, j) end

---@param i? integer
---@param j? integer
---@return string
function Slice:fromhex(i, j) end

---@param i? integer
---@param j? integer
---@return string
function Slice:result(i, j) end

---Reads the wire format step by step.
---@class silly.pb.slice
---@overload fun(data?: any, i?: integer, j?: integer): silly.pb.slice.Slice
local M = {}

---@param data? any
---@param i? integer
---@param j? integer
---@return silly.pb.slice.Slice
function M.new(data, i, j) end

---@param data any
---@param i? integer
---@param j? integer
---@return string
function M.tohex(data, i, j) end

---@param text any
---@param i? integer
---@param j? integer
---@return string
function M.fromhex(text, i, j) end

---@param data any
---@param i? integer
---@param j? integer
---@return string
function M.result(data, i, j) end

---@param object silly.pb.slice.Slice
---@param format string
---@param ... any
---@return any ...
function M.unpack(object, format, ...) end

---@param object silly.pb.slice.Slice
---@param data? any
---@param i? integer
---@param j? integer
---@return silly.pb.slice.Slice
function M.reset(object, data, i, j) end

---@param object silly.pb.slice.Slice
function M.delete(object) end

---@param object silly.pb.slice.Slice
---@param i? integer
---@param j? integer
---@return silly.pb.slice.Slice
function M.enter(object, i, j) end

---@param object silly.pb.slice.Slice
---@param count? integer
---@return silly.pb.slice.Slice
---@return integer
function M.leave(object, count) end

---@param object silly.pb.slice.Slice
---@param n? integer
---@return integer?
---@return integer?
---@return integer?
function M.level(object, n) end

return M
