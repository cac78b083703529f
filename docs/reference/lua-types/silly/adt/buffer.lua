---@meta silly.adt.buffer

---A buffer of bytes.
---@class silly.adt.buffer.Buffer
local Buffer = {}

---Returns the size.
---@param data string
---@return integer
function Buffer:append(data) end

---By count or up to a delimiter of one byte; also the bytes left.
---@param what integer|string
---@return string?
---@return integer
function Buffer:read(what) end

---Removes all bytes.
---@return string
function Buffer:readall() end

---All bytes, which stay.
---@return string
function Buffer:dump() end

---@return integer
function Buffer:size() end

function Buffer:clear() end

---Appended bytes that are read by count or up to a delimiter.
---@class silly.adt.buffer
local M = {}

---@return silly.adt.buffer.Buffer
function M.new() end

---Returns the size.
---@param object silly.adt.buffer.Buffer
---@param data string
---@return integer
function M.append(object, data) end

---By count or up to a delimiter of one byte; also the bytes left.
---@param object silly.adt.buffer.Buffer
---@param what integer|string
---@return string?
---@return integer
function M.read(object, what) end

---Removes all bytes.
---@param object silly.adt.buffer.Buffer
---@return string
function M.readall(object) end

---All bytes, which stay.
---@param object silly.adt.buffer.Buffer
---@return string
function M.dump(object) end

---@param object silly.adt.buffer.Buffer
---@return integer
function M.size(object) end

---@param object silly.adt.buffer.Buffer
function M.clear(object) end

return M
