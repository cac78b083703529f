---@meta silly.hive

---A function in a VM of its own.
---@class silly.hive.Worker

---Functions that may block, on a pool of threads.
---@class silly.hive
local M = {}

---Runs the code, which returns the worker's function, in a VM of its own.
---@param code string
---@param ... any
---@return silly.hive.Worker
function M.spawn(code, ...) end

---Calls the worker's function and waits for its results.
---@param worker silly.hive.Worker
---@param ... any
---@return any ...
function M.invoke(worker, ...) end

---Numbers of threads.
---@param min integer
---@param max integer
function M.limit(min, max) end

---@return integer
function M.threads() end

---Ends idle threads.
function M.prune() end

return M
