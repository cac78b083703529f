---@meta silly.task

---Coroutines of the scheduler.
---@class silly.task
local M = {}

---@return thread
function M.running() end

---Queues a coroutine.
---@param fn function
---@param ... any
---@return thread
function M.fork(fn, ...) end

---Waits for a wakeup.
---@return any
function M.wait() end

---@param thread thread
---@param value? any
function M.wakeup(thread, value) end

---"RUN", "WAIT", "READY" or nil.
---@param thread thread
---@return string?
function M.status(thread) end

---@return integer
function M.readycount() end

---@return table
function M.inspect() end

---@param create? fun(thread: thread)
---@param term? fun(thread: thread)
---@return function
---@return function
function M.hook(create, term) end

---Logs a message with a traceback.
---@param message any
function M.error(message) end

return M
