---@meta silly.adt.queue

---A queue of values.
---@class silly.adt.queue.Queue
local Queue = {}

---Returns the size.
---@param value any
---@return integer
function Queue:push(value) end

---@return any
function Queue:pop() end

---@return integer
function Queue:size() end

function Queue:clear() end

---First in, first out.
---@class silly.adt.queue
local M = {}

---@return silly.adt.queue.Queue
function M.new() end

---Returns the size.
---@param object silly.adt.queue.Queue
---@param value any
---@return integer
function M.push(object, value) end

---@param object silly.adt.queue.Queue
---@return any
function M.pop(object) end

---@param object silly.adt.queue.Queue
---@return integer
function M.size(object) end

---@param object silly.adt.queue.Queue
function M.clear(object) end

return M
