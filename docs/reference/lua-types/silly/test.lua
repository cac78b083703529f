---@meta silly.test

---Checks of a test, and its clock.
---@class silly.test
local M = {}

---Tables are compared by their contents.
---@param got any
---@param expected any
---@param message? string
function M.equal(got, expected, message) end

---The error that the function raises.
---@param pattern string
---@param fn function
---@param ... any
---@return any
function M.raises(pattern, fn, ...) end

---Ends the test, which counts as skipped.
---@param reason? string
function M.skip(reason) end

---Stops the clock of this test's VM.
---@param wall_ms? integer
function M.stop_clock(wall_ms) end

---Moves the stopped clock; what is due happens in order.
---@param ms integer
function M.advance(ms) end

return M
