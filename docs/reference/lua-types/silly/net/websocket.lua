---@meta silly.net.websocket

---A WebSocket.
---@class silly.net.websocket.Socket
---@field conn table
---@field stream? silly.net.http.ServerStream
local Socket = {}

---@param ms? integer
---@return string?
---@return string?
---@return any
function Socket:read(ms) end

---@param data? string
---@param type? string
---@return boolean
---@return string?
function Socket:write(data, type) end

---@param code? integer
---@param reason? string
---@return boolean
---@return string?
function Socket:close(code, reason) end

---WebSocket servers and clients.
---@class silly.net.websocket
local M = {}

---@param stream silly.net.http.ServerStream
---@param options? table
---@return silly.net.websocket.Socket?
---@return string?
function M.upgrade(stream, options) end

---As http.listen; the handler gets sockets.
---@param options table
---@return silly.net.http.Listener?
---@return string?
function M.listen(options) end

---@param url string
---@param header? table
---@param options? table
---@return silly.net.websocket.Socket?
---@return string?
function M.connect(url, header, options) end

return M
