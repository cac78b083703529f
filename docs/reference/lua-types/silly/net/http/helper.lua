---@meta silly.net.http.helper

---URLs and texts of pages.
---@class silly.net.http.helper
local M = {}

---@param value string|table
---@return string
function M.urlencode(value) end

---@param text string
---@return string
function M.urldecode(text) end

---@param url string
---@return string?
---@return string?
---@return string?
---@return string?
---@return boolean?
function M.parseurl(url) end

---@param target string
---@return string
---@return table<string, string>
function M.parsetarget(target) end

---@param text string
---@return string
function M.htmlunescape(text) end

return M
