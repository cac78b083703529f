---@meta silly

---An upstream of the server's configuration.
---@class silly.Upstream
local Upstream = {}

---A request to this upstream.
---@param request table
---@param changes? silly.RequestChanges
---@return silly.Subresponse?
---@return string?
---@return integer?
function Upstream:request(request, changes) end

---Changes of a request, or a new one.
---@class silly.RequestChanges
---@field method? string
---@field path? string Decoded, begins with a slash.
---@field query? table|string
---@field target? string Path and query, encoded.
---@field headers? table
---@field body? string
---@field timeout? integer Milliseconds until the head of the response.

---The response to a subrequest.
---@class silly.Subresponse
---@field status integer
---@field headers table
---@field body table
local Subresponse = {}

---Drops the rest of the body.
function Subresponse:close() end

---The process.
---@class silly
---@field pid integer The id of the process.
---@field version string The version of Silly's API.
---@field tidegate string The version of Tidegate.
---@field gitsha1 string
---@field allocator string
---@field multiplexer string
---@field timerresolution integer Milliseconds.
local M = {}

---Ends the program; does not return.
---@param code? integer
function M.exit(code) end

---As Lua's pcall; the text of an error has a traceback.
---@param fn function
---@param ... any
---@return boolean
---@return any ...
function M.pcall(fn, ...) end

---Logs a message with a traceback and continues.
---@param message any
function M.error(message) end

---A number that is unique in the VM.
---@return integer
function M.genid() end

---At most size bytes of the value's text.
---@param value any
---@param size? integer
---@return string
function M.tostring(value, size) end

---Begins a coroutine, as in Silly's releases of 2024.
---@param fn function
function M.start(fn) end

---Exists for compatibility; there are no engine messages.
---@param kind any
---@param fn? function
function M.register(kind, fn) end

---An upstream of the server's configuration; only in a server.
---@param name string
---@return silly.Upstream
function M.upstream(name) end

---A request through the server's routes; only in a server.
---@param request table|silly.RequestChanges
---@param changes? silly.RequestChanges
---@return silly.Subresponse?
---@return string?
---@return integer?
function M.route(request, changes) end

return M
