---@meta silly.fs

---Options of write.
---@class silly.fs.WriteOptions
---@field atomic? boolean

---Options of stat.
---@class silly.fs.StatOptions
---@field follow? boolean

---Options of mkdir.
---@class silly.fs.MkdirOptions
---@field parents? boolean

---Options of remove.
---@class silly.fs.RemoveOptions
---@field recursive? boolean

---Options of temp.
---@class silly.fs.TempOptions
---@field dir? string
---@field prefix? string
---@field directory? boolean

---What is known of a file.
---@class silly.fs.Stat
---@field type string
---@field size integer
---@field mode integer
---@field mtime number
---@field links integer

---An entry of a directory.
---@class silly.fs.Entry
---@field name string
---@field type string

---An open file.
---@class silly.fs.File
local File = {}

---@param n? integer
---@return string?
---@return string?
function File:read(n) end

---@param data string
---@return boolean?
---@return string?
function File:write(data) end

---@return boolean?
---@return string?
function File:sync() end

function File:close() end

---A watched directory or file.
---@class silly.fs.Watch
local Watch = {}

---@param ms? integer
---@return table?
---@return string?
function Watch:read(ms) end

function Watch:close() end

---Files and directories, on a thread pool.
---@class silly.fs
---@field EOF string
local M = {}

---@param path string
---@param limit? integer
---@return string?
---@return string?
function M.read(path, limit) end

---@param path string
---@param data string
---@param options? silly.fs.WriteOptions
---@return boolean?
---@return string?
function M.write(path, data, options) end

---@param path string
---@param data string
---@return boolean?
---@return string?
function M.append(path, data) end

---@param path string
---@param options? silly.fs.StatOptions
---@return silly.fs.Stat?
---@return string?
function M.stat(path, options) end

---@param path string
---@return silly.fs.Entry[]?
---@return string?
function M.list(path) end

---@param path string
---@param options? silly.fs.MkdirOptions
---@return boolean?
---@return string?
function M.mkdir(path, options) end

---@param path string
---@param options? silly.fs.RemoveOptions
---@return boolean?
---@return string?
function M.remove(path, options) end

---@param from string
---@param to string
---@return boolean?
---@return string?
function M.rename(from, to) end

---Creates an empty file or directory.
---@param options? silly.fs.TempOptions
---@return string?
---@return string?
function M.temp(options) end

---@param path string
---@param mode? string
---@return silly.fs.File?
---@return string?
function M.open(path, mode) end

---@param path string
---@return silly.fs.Watch?
---@return string?
function M.watch(path) end

return M
