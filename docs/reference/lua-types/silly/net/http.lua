---@meta silly.net.http

---Options of a server.
---@class silly.net.http.ListenOptions
---@field addr string
---@field handler fun(stream: silly.net.http.ServerStream)
---@field certs? table[]
---@field tls? boolean
---@field alpnprotos? string[]
---@field backlog? integer
---@field max_body? integer
---@field body_timeout? integer Milliseconds between pieces of a body.
---@field head_timeout? integer
---@field idle_timeout? integer
---@field max_connections? integer

---A server that listens.
---@class silly.net.http.Listener
---@field addr string
local Listener = {}

---@return table<string, integer>
function Listener:stat() end

---@return boolean
---@return string?
function Listener:close() end

---A request and its response.
---@class silly.net.http.ServerStream
---@field method string
---@field path string Decoded, without the query.
---@field target string
---@field version string
---@field scheme string
---@field remoteaddr string
---@field query table<string, string>
---@field header table<string, string|string[]>
---@field trailer? table<string, string|string[]>
---@field eof boolean
---@field conn table
local ServerStream = {}

---@param n? integer
---@param ms? integer
---@return string?
---@return string?
function ServerStream:read(n, ms) end

---@param ms? integer
---@return string?
---@return string?
function ServerStream:readall(ms) end

---@param status integer
---@param header? table
---@return boolean
---@return string?
function ServerStream:respond(status, header) end

---@param data string
---@return boolean
---@return string?
function ServerStream:write(data) end

---@return boolean
---@return string?
function ServerStream:flush() end

---@param data? string
---@param trailer? table
---@return boolean
---@return string?
function ServerStream:closewrite(data, trailer) end

---A request of a client and its response.
---@class silly.net.http.ClientStream
---@field status? integer
---@field header? table<string, string|string[]>
---@field trailer? table<string, string|string[]>
---@field eof boolean
---@field conn table
local ClientStream = {}

---@param ms? integer
---@return boolean
---@return string?
function ClientStream:waitresponse(ms) end

---The status and the header, or nil and a reason.
---@param ms? integer
---@return integer?
---@return any
function ClientStream:readheader(ms) end

---@param n? integer
---@param ms? integer
---@return string?
---@return string?
function ClientStream:read(n, ms) end

---@param ms? integer
---@return string?
---@return string?
function ClientStream:readall(ms) end

---@param data string
---@return boolean
---@return string?
function ClientStream:write(data) end

---@return boolean
---@return string?
function ClientStream:flush() end

---@param data? string
---@param trailer? table
---@return boolean
---@return string?
function ClientStream:closewrite(data, trailer) end

---@return boolean
---@return string?
function ClientStream:close() end

---A complete response.
---@class silly.net.http.Response
---@field status integer
---@field header table<string, string|string[]>
---@field body string
---@field trailer? table<string, string|string[]>

---Options of a client.
---@class silly.net.http.ClientOptions
---@field max_idle_per_host? integer
---@field idle_timeout? integer
---@field read_timeout? integer
---@field connect_timeout? integer
---@field redirects? integer
---@field ca? string
---@field insecure? boolean
---@field alpnprotos? string[]

---A client with connections of its own.
---@class silly.net.http.Client
local Client = {}

---@param url string
---@param header? table
---@return silly.net.http.Response?
---@return string?
function Client:get(url, header) end

---@param url string
---@param header? table
---@param body? string
---@return silly.net.http.Response?
---@return string?
function Client:post(url, header, body) end

---@param method string
---@param url string
---@param header? table
---@return silly.net.http.ClientStream?
---@return string?
function Client:request(method, url, header) end

---HTTP/1.1 and HTTP/2 servers and clients.
---@class silly.net.http
---@field EOF string
---@field CLOSED string
---@field TIMEDOUT string
local M = {}

---@param options silly.net.http.ListenOptions
---@return silly.net.http.Listener?
---@return string?
function M.listen(options) end

---@param url string
---@param header? table
---@return silly.net.http.Response?
---@return string?
function M.get(url, header) end

---@param url string
---@param header? table
---@param body? string
---@return silly.net.http.Response?
---@return string?
function M.post(url, header, body) end

---The name of get in Silly's releases of 2024.
---@param url string
---@param header? table
---@return silly.net.http.Response?
---@return string?
function M.GET(url, header) end

---The name of post in Silly's releases of 2024.
---@param url string
---@param header? table
---@param body? string
---@return silly.net.http.Response?
---@return string?
function M.POST(url, header, body) end

---@param method string
---@param url string
---@param header? table
---@return silly.net.http.ClientStream?
---@return string?
function M.request(method, url, header) end

---@param options? silly.net.http.ClientOptions
---@return silly.net.http.Client
function M.newclient(options) end

return M
