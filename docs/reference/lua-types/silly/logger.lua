---@meta silly.logger

---Writes to the log.
---@class silly.logger
---@field DEBUG integer
---@field INFO integer
---@field WARN integer
---@field ERROR integer
local M = {}

---@param ... any
function M.debug(...) end

---@param ... any
function M.info(...) end

---@param ... any
function M.warn(...) end

---@param ... any
function M.error(...) end

---@param format string
---@param ... any
function M.debugf(format, ...) end

---@param format string
---@param ... any
function M.infof(format, ...) end

---@param format string
---@param ... any
function M.warnf(format, ...) end

---@param format string
---@param ... any
function M.errorf(format, ...) end

---@return integer
function M.getlevel() end

---@param level integer
function M.setlevel(level) end

return M
