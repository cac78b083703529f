---@meta silly.sync.waitgroup

---Coroutines to wait for.
---@class silly.sync.waitgroup.Group
local Group = {}

---@param fn function
---@param ... any
---@return thread
function Group:fork(fn, ...) end

function Group:wait() end

---Waits for several coroutines.
---@class silly.sync.waitgroup
local M = {}

---@return silly.sync.waitgroup.Group
function M.new() end

---@param object silly.sync.waitgroup.Group
---@param fn function
---@param ... any
---@return thread
function M.fork(object, fn, ...) end

---@param object silly.sync.waitgroup.Group
function M.wait(object) end

return M
