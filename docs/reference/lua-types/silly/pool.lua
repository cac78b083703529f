---@meta silly.pool

---Options of a pool.
---@class silly.pool.Options
---@field open fun(key: any): any, string?
---@field close? fun(resource: any)
---@field check? fun(resource: any): boolean
---@field check_after? integer
---@field max? integer
---@field wait? integer
---@field idle? integer
---@field lifetime? integer
---@field keys? integer

---A pool.
---@class silly.pool.Pool
local Pool = {}

---@param key any
---@param fn function
---@param ... any
---@return any ...
function Pool:with(key, fn, ...) end

---@param key? any
---@param ms? integer
---@return any
---@return string?
function Pool:take(key, ms) end

---@param resource any
function Pool:give(resource) end

---@param resource any
function Pool:drop(resource) end

---@param key? any
---@param ms? integer
---@return silly.pool.Lease?
---@return string?
function Pool:lease(key, ms) end

---@return table<string, integer>
function Pool:stat() end

function Pool:close() end

---A resource that is returned at the end of a block.
---@class silly.pool.Lease
---@field resource any
local Lease = {}

function Lease:give() end

function Lease:drop() end

---Resources that are expensive to open.
---@class silly.pool
local M = {}

---@param options silly.pool.Options
---@return silly.pool.Pool
function M.new(options) end

return M
