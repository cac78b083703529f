---@meta silly.compress.zstd

---The encoding zstd (RFC 8878).
---@class silly.compress.zstd
local M = {}

---@param data string
---@param level? integer
---@return string
function M.compress(data, level) end

---@param data string
---@param limit? integer
---@return string?
---@return string?
function M.decompress(data, limit) end

---@param level? integer
---@return silly.compress.br.Compressor
function M.compressor(level) end

---@param limit? integer
---@return silly.compress.br.Decompressor
function M.decompressor(limit) end

return M
