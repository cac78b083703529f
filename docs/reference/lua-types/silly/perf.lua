---@meta silly.perf

---Times sections of code.
---@class silly.perf
local M = {}

---Nanoseconds.
---@return integer
function M.hrtime() end

---@param name string
function M.start(name) end

---@param name string
function M.stop(name) end

function M.yield() end

---@param thread thread
function M.resume(thread) end

---@param name? string
---@return table
function M.dump(name) end

return M
