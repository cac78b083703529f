---@meta silly.pb

---Messages of protocol buffers, with lua-protobuf's API.
---@class silly.pb
local M = {}

---A set of descriptors; also the position of an error.
---@param data any
---@return boolean
---@return integer
---@return string?
function M.load(data) end

---@param path string
---@return boolean?
---@return integer|string
---@return string?
function M.loadfile(path) end

---@param type string
---@param message table
---@param buffer? silly.pb.buffer.Buffer
---@return string
function M.encode(type, message, buffer) end

---@param type string
---@param data? any
---@param into? table
---@return table
function M.decode(type, data, into) end

---@param type string
---@param clear? boolean
---@return table
function M.defaults(type, clear) end

---Full name, name, and "message", "enum" or "map".
---@param name string
---@return string?
---@return string?
---@return string?
function M.type(name) end

---An iterator of what type returns.
---@return function
function M.types() end

---Name, number, type, default, label, oneof, its index.
---@param type string
---@param name string|integer
---@return any ...
function M.field(type, name) end

---An iterator of what field returns.
---@param type string
---@return function
function M.fields(type) end

---The number of a name, or the name of a number.
---@param type string
---@param name string|integer
---@return any
function M.enum(type, name) end

---@param name string
---@return string
---@return integer
function M.typefmt(name) end

---@param type? string
---@param field? string|integer
function M.clear(type, field) end

---Called with each decoded message.
---@param type string
---@param fn? fun(message: table): any
---@return function?
function M.hook(type, fn) end

---Called before a message is encoded.
---@param type string
---@param fn? fun(message: table): any
---@return function?
function M.encode_hook(type, fn) end

---@param name string
function M.option(name) end

---The current state, which is replaced.
---@param state? any
---@return any
function M.state(state) end

---@param format string
---@param ... any
---@return string
function M.pack(format, ...) end

---@param data any
---@param format? string
---@param ... any
---@return any ...
function M.unpack(data, format, ...) end

---@param data any
---@param i? integer
---@param j? integer
---@return string
function M.tohex(data, i, j) end

---@param text any
---@param i? integer
---@param j? integer
---@return string
function M.fromhex(text, i, j) end

---@param data any
---@param i? integer
---@param j? integer
---@return string
function M.result(data, i, j) end

return M
