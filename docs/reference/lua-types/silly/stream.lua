---@meta silly.stream

---Pieces of data.
---@class silly.stream.Source
local Source = {}

---@return any
---@return string?
function Source:read() end

---@return fun(): any
function Source:pieces() end

function Source:close() end

---Pipelines: source | stage | sink.
---@class silly.stream
local M = {}

---@param pipeline any
---@return any
---@return string?
function M.run(pipeline) end

---@param text string
---@return silly.stream.Source
function M.text(text) end

---@param path string
---@return silly.stream.Source
function M.file(path) end

---@param conn silly.net.tcp.Conn
---@param ms? integer
---@return silly.stream.Source
function M.conn(conn, ms) end

---@param fn function
---@param close? function
---@return silly.stream.Source
function M.from(fn, close) end

---@param level? integer
---@return any
function M.gzip(level) end

---@param level? integer
---@return any
function M.br(level) end

---@param level? integer
---@return any
function M.zstd(level) end

---@param limit? integer
---@return any
function M.gunzip(limit) end

---@param limit? integer
---@return any
function M.unbr(limit) end

---@param limit? integer
---@return any
function M.unzstd(limit) end

---@return any
function M.base64() end

---@return any
function M.unbase64() end

---@param limit? integer
---@return any
function M.lines(limit) end

---@param limit? integer
---@return any
function M.json(limit) end

---@return any
function M.tojson() end

---@param fn function
---@return any
function M.map(fn) end

---@param fn function
---@return any
function M.filter(fn) end

---@param n integer
---@return any
function M.take(n) end

---@param limit? integer
---@return any
function M.totext(limit) end

---@param limit? integer
---@return any
function M.tolist(limit) end

---@param path string
---@param mode? string
---@return any
function M.tofile(path, mode) end

---@param conn silly.net.tcp.Conn
---@return any
function M.toconn(conn) end

---@param fn function
---@return any
function M.each(fn) end

return M
