---@meta silly.net.grpc

---Options of a server.
---@class silly.net.grpc.ListenOptions
---@field addr string
---@field registrar silly.net.grpc.registrar.Registrar
---@field tls? boolean
---@field certs? table[]
---@field alpnprotos? string[]
---@field backlog? integer
---@field max_message? integer Bytes of one message.
---@field max_connections? integer

---Options of a client.
---@class silly.net.grpc.ClientOptions
---@field targets string[] Each host:port; calls go to one after the other.
---@field tls? boolean|table
---@field ca? string
---@field insecure? boolean
---@field max_message? integer

---The connections of a client.
---@class silly.net.grpc.Conn
local Conn = {}

function Conn:close() end

---A call with a stream of messages.
---@class silly.net.grpc.Call
---@field status? integer Set at the end.
---@field message? string
local Call = {}

---nil at the end.
---@param ms? integer
---@return table?
---@return string?
function Call:read(ms) end

---@param ms? integer
---@return table?
---@return string?
function Call:readfinal(ms) end

---@param message table
---@return boolean
---@return string?
function Call:write(message) end

---@param message? table
---@return boolean
---@return string?
function Call:closewrite(message) end

---Cancels the call.
function Call:close() end

---What the function of a streaming method has.
---@class silly.net.grpc.Stream
---@field header table<string, string|string[]>
---@field remoteaddr string
---@field path string
---@field status? integer
---@field message? string
local Stream = {}

---@param ms? integer
---@return table?
---@return string?
function Stream:read(ms) end

---@param message table
---@return boolean
---@return string?
function Stream:write(message) end

---@return boolean
function Stream:isalive() end

---Servers and clients of gRPC.
---@class silly.net.grpc
local M = {}

---@param options silly.net.grpc.ListenOptions
---@return silly.net.http.Listener?
---@return string?
function M.listen(options) end

---@param options silly.net.grpc.ClientOptions
---@return silly.net.grpc.Conn?
---@return string?
function M.newclient(options) end

---Has a method for each of the service.
---@param conn silly.net.grpc.Conn
---@param proto table
---@param name string
---@return table?
---@return string?
function M.newservice(conn, proto, name) end

return M
