---@meta silly.net

---Callbacks of a socket.
---@class silly.net.Events
---@field accept? fun(fd: integer, listenid: integer, addr: string)
---@field data? fun(fd: integer, ptr: string, size: integer, addr?: string)
---@field close? fun(fd: integer, err: string)

---Sockets by number with callbacks.
---@class silly.net
local M = {}

---@param addr string
---@param event silly.net.Events
---@param backlog? integer
---@return integer?
---@return string?
function M.tcplisten(addr, event, backlog) end

---@param addr string
---@param event silly.net.Events
---@param bind? string
---@param timeout? integer
---@return integer?
---@return string?
function M.tcpconnect(addr, event, bind, timeout) end

---@param fd integer
---@param data string|string[]
---@param size? integer
---@return boolean
---@return string?
function M.tcpsend(fd, data, size) end

---@param fd integer
---@param ptr any
---@param size integer
---@return boolean
---@return string?
function M.tcpmulticast(fd, ptr, size) end

---@param addr string
---@param event silly.net.Events
---@return integer?
---@return string?
function M.udpbind(addr, event) end

---@param addr string
---@param event silly.net.Events
---@param bind? string
---@return integer?
---@return string?
function M.udpconnect(addr, event, bind) end

---@param fd integer
---@param data string|string[]
---@param size? integer|string
---@param addr? string
---@return boolean
---@return string?
function M.udpsend(fd, data, size, addr) end

---@param data string
---@param n integer
---@return any
---@return integer
function M.multipack(data, n) end

---@param fd integer
---@param enabled boolean
function M.readenable(fd, enabled) end

---@param fd integer
---@return integer
function M.sendsize(fd) end

---@param fd integer
---@return string?
function M.localaddr(fd) end

---Its kind, addr, unsent and reading.
---@param fd integer
---@return table?
function M.describe(fd) end

---@param fd integer
---@return boolean
---@return string?
function M.close(fd) end

---@param ptr any
---@param size integer
---@return string
function M.tostring(ptr, size) end

return M
