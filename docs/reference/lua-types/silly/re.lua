---@meta silly.re

---A compiled pattern.
---@class silly.re.Pattern
local Pattern = {}

---@param s string
---@param init? integer
---@return any ...
function Pattern:match(s, init) end

---@param s string
---@param init? integer
---@return any ...
function Pattern:find(s, init) end

---@param s string
---@param init? integer
---@return table?
function Pattern:captures(s, init) end

---@param s string
---@return fun(): any
function Pattern:gmatch(s) end

---@param s string
---@param replacement any
---@param n? integer
---@return string
---@return integer
function Pattern:gsub(s, replacement, n) end

---@param s string
---@param n? integer
---@return string[]
function Pattern:split(s, n) end

---Regular expressions in linear time.
---@class silly.re
local M = {}

---@param s string
---@param pattern string|silly.re.Pattern
---@param init? integer
---@return any ...
function M.match(s, pattern, init) end

---@param s string
---@param pattern string|silly.re.Pattern
---@param init? integer
---@return any ...
function M.find(s, pattern, init) end

---@param s string
---@param pattern string|silly.re.Pattern
---@param init? integer
---@return table?
function M.captures(s, pattern, init) end

---@param s string
---@param pattern string|silly.re.Pattern
---@return fun(): any
function M.gmatch(s, pattern) end

---@param s string
---@param pattern string|silly.re.Pattern
---@param replacement any
---@param n? integer
---@return string
---@return integer
function M.gsub(s, pattern, replacement, n) end

---@param s string
---@param pattern string|silly.re.Pattern
---@param n? integer
---@return string[]
function M.split(s, pattern, n) end

---@param s string
---@return string
function M.escape(s) end

---@param pattern string
---@return silly.re.Pattern?
---@return string?
function M.compile(pattern) end

return M
