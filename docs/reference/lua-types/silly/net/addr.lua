---@meta silly.net.addr

---Parses and joins addresses.
---@class silly.net.addr
local M = {}

---@param text string
---@return string?
---@return string?
function M.parse(text) end

---@param host string
---@param port? string|integer
---@return string
function M.join(host, port) end

---4, 6 or 0.
---@param host string
---@return integer
function M.iptype(host) end

---@param host string
---@return boolean
function M.isv4(host) end

---@param host string
---@return boolean
function M.isv6(host) end

---@param name string
---@return boolean
function M.ishost(name) end

return M
