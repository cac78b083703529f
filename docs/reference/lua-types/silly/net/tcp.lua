---@meta silly.net.tcp

---Options of a listener.
---@class silly.net.tcp.ListenOptions
---@field addr string
---@field accept? fun(conn: silly.net.tcp.Conn, addr: string)
---@field callback? fun(conn: silly.net.tcp.Conn, addr: string)
---@field backlog? integer

---Options of a connection.
---@class silly.net.tcp.ConnectOptions
---@field bind? string
---@field timeout? integer

---A listener.
---@class silly.net.tcp.Listener
---@field addr string
local Listener = {}

---@return boolean
---@return string?
function Listener:close() end

---A connection.
---@class silly.net.tcp.Conn
---@field remoteaddr string
local Conn = {}

---By count, or up to a delimiter.
---@param what integer|string
---@param ms? integer
---@return string?
---@return string?
function Conn:read(what, ms) end

---@param delimiter? string
---@param ms? integer
---@return string?
---@return string?
function Conn:readline(delimiter, ms) end

---All received bytes; waits for the first one.
---@param max? integer
---@param ms? integer
---@return string?
---@return string?
function Conn:readall(max, ms) end

---@param parser function
---@param ms? integer
---@return any
---@return string?
function Conn:parse(parser, ms) end

---@param max? integer
---@return string
function Conn:peek(max) end

---@param data string
function Conn:unread(data) end

---@param ms? integer
---@return boolean?
---@return string?
function Conn:more(ms) end

---Never waits.
---@param data string|string[]
---@return boolean
---@return string?
function Conn:write(data) end

---Waits until the kernel has the output.
---@return boolean?
---@return string?
function Conn:flush() end

---@return boolean
---@return string?
function Conn:closewrite() end

---@return boolean
---@return string?
function Conn:close() end

---@param bytes? integer
function Conn:limit(bytes) end

---@param bytes? integer
function Conn:linelimit(bytes) end

---@param bytes? integer
function Conn:outputlimit(bytes) end

---@param ms? integer
function Conn:deadline(ms) end

---@return boolean
function Conn:isalive() end

---@return integer
function Conn:unreadbytes() end

---@return integer
function Conn:unsentbytes() end

---@return integer
function Conn:recvsize() end

---@return integer
function Conn:sendsize() end

---Of a connection with TLS.
---@return string?
function Conn:alpnproto() end

---TCP connections and listeners.
---@class silly.net.tcp
local M = {}

---@param addr string|silly.net.tcp.ListenOptions
---@param accept? fun(conn: silly.net.tcp.Conn, addr: string)
---@param backlog? integer
---@return silly.net.tcp.Listener?
---@return string?
function M.listen(addr, accept, backlog) end

---Waits until the connection is open.
---@param addr string
---@param options? string|silly.net.tcp.ConnectOptions
---@return silly.net.tcp.Conn?
---@return string?
function M.connect(addr, options) end

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
