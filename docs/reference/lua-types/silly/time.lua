---@meta silly.time

---Clocks and timers, in milliseconds.
---@class silly.time
---@field TIMEDOUT string
local M = {}

---The wall clock.
---@return integer
function M.now() end

---Since the process began.
---@return integer
function M.monotonic() end

---@param ms number
function M.sleep(ms) end

---Calls a function later, in a coroutine.
---@param ms number
---@param fn function
---@param value? any
---@return integer
function M.after(ms, fn, value) end

---@param session integer
function M.cancel(session) end

---@param ms number
---@param fn function
---@param ... any
---@return any ...
function M.timeout(ms, fn, ...) end

---@param ms number
---@param fn function
---@return function
function M.throttle(ms, fn) end

---@param ms number
---@param fn function
---@return function
function M.debounce(ms, fn) end

return M
