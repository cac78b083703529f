---@meta silly.net.cluster

---Another process.
---@class silly.net.cluster.Peer
---@field remoteaddr string

---Settings of all peers.
---@class silly.net.cluster.Settings
---@field marshal fun(kind: string, command: any, object: any): integer?, string?
---@field unmarshal fun(kind: string, command: integer, data: string): any, string?
---@field call fun(peer: silly.net.cluster.Peer, command: integer, object: any): any
---@field accept? fun(peer: silly.net.cluster.Peer, addr: string)
---@field close? fun(peer: silly.net.cluster.Peer, err: string)
---@field timeout? integer
---@field packettimeout? integer
---@field concurrency? integer
---@field hardlimit? integer
---@field softlimit? integer

---Calls between processes.
---@class silly.net.cluster
local M = {}

---@param settings silly.net.cluster.Settings
function M.serve(settings) end

---@param addr string
---@param backlog? integer
---@return table?
---@return string?
function M.listen(addr, backlog) end

---@param addr string
---@return silly.net.cluster.Peer
function M.connect(addr) end

---@param peer silly.net.cluster.Peer
---@param command integer|string
---@param object any
---@return any
---@return string?
function M.call(peer, command, object) end

---@param peer silly.net.cluster.Peer
---@param command integer|string
---@param object any
---@return boolean?
---@return string?
function M.send(peer, command, object) end

---@param peer silly.net.cluster.Peer|table
function M.close(peer) end

---@return table<string, integer>
function M.stat() end

return M
