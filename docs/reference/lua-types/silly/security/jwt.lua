---@meta silly.security.jwt

---Signed JSON Web Tokens.
---@class silly.security.jwt
local M = {}

---@param payload table
---@param key any
---@param algorithm? string
---@return string?
---@return string?
function M.encode(payload, key, algorithm) end

---@param token string
---@param key any
---@param options? table
---@return table?
---@return string?
function M.decode(token, key, options) end

return M
