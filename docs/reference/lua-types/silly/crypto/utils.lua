---@meta silly.crypto.utils

---Random bytes, and constant-time comparison.
---@class silly.crypto.utils
local M = {}

---Random bytes.
---@param n integer
---@return string
function M.random(n) end

---Random lower-case letters.
---@param n integer
---@return string
function M.randomkey(n) end

---@param key string
---@param data string
---@return string
function M.xor(key, data) end

---Compares in constant time.
---@param a string
---@param b string
---@return boolean
function M.equal(a, b) end

return M
