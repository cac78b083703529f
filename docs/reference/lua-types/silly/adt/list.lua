---@meta silly.adt.list

---A list of unique values.
---@class silly.adt.list.List
local List = {}

---@param value any
function List:pushback(value) end

---@param value any
function List:pushfront(value) end

---@return any
function List:popback() end

---@return any
function List:popfront() end

---@param value any
---@return any
---@return string?
function List:remove(value) end

---@return any
function List:front() end

---@return any
function List:back() end

---@return integer
function List:size() end

---An iterator.
---@return fun(): any
function List:values() end

function List:clear() end

---Unique values in order.
---@class silly.adt.list
local M = {}

---@return silly.adt.list.List
function M.new() end

---@param object silly.adt.list.List
---@param value any
function M.pushback(object, value) end

---@param object silly.adt.list.List
---@param value any
function M.pushfront(object, value) end

---@param object silly.adt.list.List
---@return any
function M.popback(object) end

---@param object silly.adt.list.List
---@return any
function M.popfront(object) end

---@param object silly.adt.list.List
---@param value any
---@return any
---@return string?
function M.remove(object, value) end

---@param object silly.adt.list.List
---@return any
function M.front(object) end

---@param object silly.adt.list.List
---@return any
function M.back(object) end

---@param object silly.adt.list.List
---@return integer
function M.size(object) end

---An iterator.
---@param object silly.adt.list.List
---@return fun(): any
function M.values(object) end

---@param object silly.adt.list.List
function M.clear(object) end

return M
