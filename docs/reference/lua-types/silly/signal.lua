---@meta silly.signal

---Signals of the process.
---@class silly.signal
---@overload fun(name: string, fn?: fun(name: string)): function?
local M = {}

return M
