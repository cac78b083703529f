---@meta silly.pb.buffer

---A buffer.
---@class silly.pb.buffer.Buffer
local Buffer = {}

---@param format string
---@param ... any
---@return silly.pb.buffer.Buffer
function Buffer:pack(format, ...) end

---@param ... any
---@return silly.pb.buffer.Buffer
function Buffer:reset(...) end

function Buffer:delete() end

---@param i? integer
---@param j? integer
---@return string
function Buffer:tohex(i, j) end

---@param i? integer
---@param j? integer
---@return string
function Buffer:fromhex(i, j) end

---@param i? integer
---@param j? integer
---@return string
function Buffer:result(i, j) end

---Bytes that grow by values in the wire format.
---@class silly.pb.buffer
---@overload fun(...: any): silly.pb.buffer.Buffer
local M = {}

---@param ... any
---@return silly.pb.buffer.Buffer
function M.new(...) end

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

---@param object silly.pb.buffer.Buffer
---@param format string
---@param ... any
---@return silly.pb.buffer.Buffer
function M.pack(object, format, ...) end

---@param object silly.pb.buffer.Buffer
---@param ... any
---@return silly.pb.buffer.Buffer
function M.reset(object, ...) end

---@param object silly.pb.buffer.Buffer
function M.delete(object) end

return M
