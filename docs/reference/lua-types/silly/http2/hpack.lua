---@meta silly.http2.hpack

---The tables of one direction.
---@class silly.http2.hpack.Context

---Field blocks of HTTP/2 (RFC 7541).
---@class silly.http2.hpack
local M = {}

---The tables of one direction.
---@param size? integer
---@return silly.http2.hpack.Context
function M.new(size) end

---The pairs, then the fields of the table.
---@param context silly.http2.hpack.Context
---@param header? table
---@param ... any
---@return string
function M.pack(context, header, ...) end

---@param context silly.http2.hpack.Context
---@param block string
---@return table<string, string|string[]>?
---@return string?
function M.unpack(context, block) end

---@param context silly.http2.hpack.Context
---@param size integer
function M.hardlimit(context, size) end

return M
