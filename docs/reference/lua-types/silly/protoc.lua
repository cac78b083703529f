---@meta silly.protoc

---The files and the types that one compiler knows.
---@class silly.protoc.Compiler
---@field typemap table<string, integer>
---@field loaded table<string, table> The descriptors of its files by name.
---@field paths string[] Where imports are searched.
---@field include_imports? boolean
---@field unknown_import? any True, a pattern, or a function that returns a descriptor.
---@field unknown_type? any True, a pattern, or a function that returns a name and "message" or "enum".
---@field on_import? fun(info: table)
local Compiler = {}

---@param path string
function Compiler:addpath(path) end

---@param text string
---@param name? string
---@return table
function Compiler:parse(text, name) end

---@param name string
---@return table
function Compiler:parsefile(name) end

---@param text string
---@param name? string
---@return string
function Compiler:compile(text, name) end

---@param name string
---@return string
function Compiler:compilefile(name) end

---@param text string
---@param name? string
---@return boolean
---@return integer
function Compiler:load(text, name) end

---@param name string
---@return boolean
---@return integer
function Compiler:loadfile(name) end

---Compilers of .proto files.
---@class silly.protoc
---@field typemap table<string, integer>
---@field loaded table<string, table>
---@field paths string[]
local M = {}

---@return silly.protoc.Compiler
function M.new() end

---Loads the types of descriptors into the current state of pb.
---@return boolean
function M.reload() end

---@param object silly.protoc.Compiler
---@param path string
function M.addpath(object, path) end

---@param object silly.protoc.Compiler
---@param text string
---@param name? string
---@return table
function M.parse(object, text, name) end

---@param object silly.protoc.Compiler
---@param name string
---@return table
function M.parsefile(object, name) end

---@param object silly.protoc.Compiler
---@param text string
---@param name? string
---@return string
function M.compile(object, text, name) end

---@param object silly.protoc.Compiler
---@param name string
---@return string
function M.compilefile(object, name) end

---@param object silly.protoc.Compiler
---@param text string
---@param name? string
---@return boolean
---@return integer
function M.load(object, text, name) end

---@param object silly.protoc.Compiler
---@param name string
---@return boolean
---@return integer
function M.loadfile(object, name) end

return M
