---@meta silly.zproto

---A schema.
---@class silly.zproto.Protocol
local Protocol = {}

---0 for a struct without a number.
---@param name string
---@return integer?
function Protocol:tag(name) end

---@param type string|integer
---@param value table
---@return string
function Protocol:encode(type, value) end

---@param type string|integer
---@param data string
---@param size? integer
---@return table?
---@return integer
---@return string?
function Protocol:decode(type, data, size) end

---@param type string|integer
---@return table
function Protocol:default(type) end

---@param what string
---@param type? string|integer
---@return function
function Protocol:travel(what, type) end

---@param text string
---@return silly.zproto.Protocol?
---@return string?
function Protocol:parse(text) end

---@param path string
---@return silly.zproto.Protocol?
---@return string?
function Protocol:load(path) end

---@param data string
---@param size? integer
---@return string
function Protocol:pack(data, size) end

---@param data string
---@param size? integer
---@return string?
---@return string?
function Protocol:unpack(data, size) end

---Silly's own schemas and encoding.
---@class silly.zproto
local M = {}

---@param text string
---@return silly.zproto.Protocol?
---@return string?
function M:parse(text) end

---@param path string
---@return silly.zproto.Protocol?
---@return string?
function M:load(path) end

---Leaves out zero bytes.
---@param data string
---@param size? integer
---@return string
function M:pack(data, size) end

---@param data string
---@param size? integer
---@return string?
---@return string?
function M:unpack(data, size) end

return M
