---@meta silly.encoding.json

---Options of a decoder.
---@class silly.encoding.json.DecoderOptions
---@field limit? integer Bytes of one value.

---Decodes text that arrives in pieces.
---@class silly.encoding.json.Decoder
local Decoder = {}

---@param text string
function Decoder:feed(text) end

---The next complete value; nothing if more text is needed.
---@return any
---@return string?
function Decoder:next() end

---Declares the end of the text.
function Decoder:finish() end

---JSON (RFC 8259).
---@class silly.encoding.json
---@field null any JSON's null.
local M = {}

---@param text string
---@return any
---@return string?
function M.decode(text) end

---@param value any
---@return string?
---@return string?
function M.encode(value) end

---Marks a table as an object.
---@param value? table
---@return table
function M.object(value) end

---@param text string
---@return any[]?
---@return string?
function M.decode_lines(text) end

---@param list any[]
---@return string?
---@return string?
function M.encode_lines(list) end

---@param options? silly.encoding.json.DecoderOptions
---@return silly.encoding.json.Decoder
function M.decoder(options) end

return M
