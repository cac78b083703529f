---@meta silly.compress.br

---Compresses data in pieces.
---@class silly.compress.br.Compressor
local Compressor = {}

---The output so far.
---@param data string
---@return string
function Compressor:write(data) end

---All output of what was written.
---@return string
function Compressor:flush() end

---The last output.
---@return string
function Compressor:finish() end

---Decompresses data in pieces.
---@class silly.compress.br.Decompressor
local Decompressor = {}

---@param data string
---@return string?
---@return string?
function Decompressor:write(data) end

---Fails if the data is incomplete.
---@return string?
---@return string?
function Decompressor:finish() end

---The encoding br (RFC 7932).
---@class silly.compress.br
local M = {}

---@param data string
---@param level? integer
---@return string
function M.compress(data, level) end

---Fails above limit bytes, 64 MiB by default.
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
