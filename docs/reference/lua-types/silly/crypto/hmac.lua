---@meta silly.crypto.hmac

---Keyed hashes (RFC 2104).
---@class silly.crypto.hmac
local M = {}

---@param key string
---@param data string
---@param algorithm string
---@return string
function M.digest(key, data, algorithm) end

---Compares in constant time.
---@param key string
---@param data string
---@param tag string
---@param algorithm string
---@return boolean
function M.verify(key, data, tag, algorithm) end

return M
