---@meta silly.net.dns

---Settings of the resolver.
---@class silly.net.dns.Settings
---@field nameservers? string[]
---@field search? string[]
---@field timeout? number
---@field attempts? integer
---@field ndots? integer

---Resolves names.
---@class silly.net.dns
---@field A integer
---@field AAAA integer
---@field SRV integer
local M = {}

---@param name string
---@param type? integer
---@param ms? integer
---@return any
---@return string?
function M.lookup(name, type, ms) end

---@param name string
---@param type? integer
---@param ms? integer
---@return any[]?
---@return string?
function M.resolve(name, type, ms) end

---@param settings silly.net.dns.Settings
function M.conf(settings) end

---@param text string
function M.sethosts(text) end

---@param text string
---@return boolean
function M.isname(text) end

return M
