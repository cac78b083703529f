---@meta silly.net.udp

---A socket of datagrams.
---@class silly.net.udp.Socket
---@field addr string
local Socket = {}

---@param ms? integer
---@return string?
---@return string?
function Socket:recvfrom(ms) end

---@param data string|string[]
---@param addr? string
---@return boolean
---@return string?
function Socket:sendto(data, addr) end

---@return boolean
---@return string?
function Socket:close() end

---@return boolean
function Socket:isalive() end

---@return integer
function Socket:unreadbytes() end

---@return integer
function Socket:unsentbytes() end

---Datagrams.
---@class silly.net.udp
local M = {}

---@param addr string
---@return silly.net.udp.Socket?
---@return string?
function M.bind(addr) end

---@param addr string
---@param options? string|table
---@return silly.net.udp.Socket?
---@return string?
function M.connect(addr, options) end

---@param object silly.net.udp.Socket
---@param ms? integer
---@return string?
---@return string?
function M.recvfrom(object, ms) end

---@param object silly.net.udp.Socket
---@param data string|string[]
---@param addr? string
---@return boolean
---@return string?
function M.sendto(object, data, addr) end

---@param object silly.net.udp.Socket
---@return boolean
---@return string?
function M.close(object) end

---@param object silly.net.udp.Socket
---@return boolean
function M.isalive(object) end

---@param object silly.net.udp.Socket
---@return integer
function M.unreadbytes(object) end

---@param object silly.net.udp.Socket
---@return integer
function M.unsentbytes(object) end

return M
