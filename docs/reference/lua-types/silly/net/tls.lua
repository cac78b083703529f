---@meta silly.net.tls

---Options of a listener.
---@class silly.net.tls.ListenOptions
---@field addr? string
---@field accept? fun(conn: silly.net.tcp.Conn, addr: string)
---@field callback? fun(conn: silly.net.tcp.Conn, addr: string)
---@field certs? table[]
---@field alpnprotos? string[]
---@field handshake_timeout? integer
---@field timeout? integer
---@field backlog? integer
---@field ctx? silly.tls.ctx.Context

---Options of a client.
---@class silly.net.tls.ConnectOptions
---@field hostname? string
---@field ca? string
---@field insecure? boolean
---@field cert? string
---@field key? string
---@field alpnprotos? string[]
---@field timeout? integer
---@field bind? string
---@field ctx? silly.tls.ctx.Context

---A listener.
---@class silly.net.tls.Listener
---@field addr string
local Listener = {}

---@param options? silly.net.tls.ListenOptions
---@return boolean
---@return string?
function Listener:reload(options) end

---@return boolean
---@return string?
function Listener:close() end

---Connections with TLS.
---@class silly.net.tls
local M = {}

---@param options silly.net.tls.ListenOptions
---@return silly.net.tls.Listener?
---@return string?
function M.listen(options) end

---@param addr string
---@param options? silly.net.tls.ConnectOptions
---@return silly.net.tcp.Conn?
---@return string?
---@return string?
function M.connect(addr, options) end

---@param conn silly.net.tcp.Conn
---@param options? silly.net.tls.ConnectOptions
---@return silly.net.tcp.Conn?
---@return string?
---@return string?
function M.upgrade(conn, options) end

---@param conn silly.net.tcp.Conn
---@param options silly.net.tls.ListenOptions
---@return silly.net.tcp.Conn?
---@return string?
---@return string?
function M.accept(conn, options) end

---@param listener silly.net.tls.Listener
---@param options? silly.net.tls.ListenOptions
---@return boolean
---@return string?
function M.reload(listener, options) end

---By count, or up to a delimiter.
---@param object silly.net.tcp.Conn
---@param what integer|string
---@param ms? integer
---@return string?
---@return string?
function M.read(object, what, ms) end

---@param object silly.net.tcp.Conn
---@param delimiter? string
---@param ms? integer
---@return string?
---@return string?
function M.readline(object, delimiter, ms) end

---All received bytes; waits for the first one.
---@param object silly.net.tcp.Conn
---@param max? integer
---@param ms? integer
---@return string?
---@return string?
function M.readall(object, max, ms) end

---@param object silly.net.tcp.Conn
---@param parser function
---@param ms? integer
---@return any
---@return string?
function M.parse(object, parser, ms) end

---@param object silly.net.tcp.Conn
---@param max? integer
---@return string
function M.peek(object, max) end

---@param object silly.net.tcp.Conn
---@param data string
function M.unread(object, data) end

---@param object silly.net.tcp.Conn
---@param ms? integer
---@return boolean?
---@return string?
function M.more(object, ms) end

---Never waits.
---@param object silly.net.tcp.Conn
---@param data string|string[]
---@return boolean
---@return string?
function M.write(object, data) end

---Waits until the kernel has the output.
---@param object silly.net.tcp.Conn
---@return boolean?
---@return string?
function M.flush(object) end

---@param object silly.net.tcp.Conn
---@return boolean
---@return string?
function M.closewrite(object) end

---@param object silly.net.tcp.Conn
---@return boolean
---@return string?
function M.close(object) end

---@param object silly.net.tcp.Conn
---@param bytes? integer
function M.limit(object, bytes) end

---@param object silly.net.tcp.Conn
---@param bytes? integer
function M.linelimit(object, bytes) end

---@param object silly.net.tcp.Conn
---@param bytes? integer
function M.outputlimit(object, bytes) end

---@param object silly.net.tcp.Conn
---@param ms? integer
function M.deadline(object, ms) end

---@param object silly.net.tcp.Conn
---@return boolean
function M.isalive(object) end

---@param object silly.net.tcp.Conn
---@return integer
function M.unreadbytes(object) end

---@param object silly.net.tcp.Conn
---@return integer
function M.unsentbytes(object) end

---@param object silly.net.tcp.Conn
---@return integer
function M.recvsize(object) end

---@param object silly.net.tcp.Conn
---@return integer
function M.sendsize(object) end

---Of a connection with TLS.
---@param object silly.net.tcp.Conn
---@return string?
function M.alpnproto(object) end

return M
