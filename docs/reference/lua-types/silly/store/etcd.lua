---@meta silly.store.etcd

---Options of a client.
---@class silly.store.etcd.Options
---@field endpoints string[]
---@field user? string
---@field password? string
---@field tls? boolean|table
---@field timeout? integer
---@field retry? integer
---@field retry_sleep? integer
---@field dialtimeout? integer
---@field max_message? integer

---A client. A call that fails returns nil, the error, and the name of its code.
---@class silly.store.etcd.Client
local Client = {}

---@param request table
---@return table?
---@return string?
---@return string?
function Client:get(request) end

---@param request table
---@return table?
---@return string?
---@return string?
function Client:put(request) end

---@param request table
---@return table?
---@return string?
---@return string?
function Client:delete(request) end

---@param request table
---@return table?
---@return string?
---@return string?
function Client:txn(request) end

---@param request table
---@return table?
---@return string?
---@return string?
function Client:compact(request) end

---@param request table
---@return table?
---@return string?
---@return string?
function Client:grant(request) end

---@param request table
---@return table?
---@return string?
---@return string?
function Client:revoke(request) end

---@param request table|integer
---@return table?
---@return string?
---@return string?
function Client:keepalive(request) end

---@param request table
---@return table?
---@return string?
---@return string?
function Client:ttl(request) end

---@return table?
---@return string?
---@return string?
function Client:leases() end

---@param id integer
---@param ms? integer
---@return boolean?
---@return string?
---@return string?
function Client:lost(id, ms) end

---@param request table
---@return silly.store.etcd.Watch?
---@return string?
---@return string?
---@return integer?
function Client:watch(request) end

---@param lease integer
---@param prefix string
---@param uuid string
---@param ms? integer
---@return boolean
---@return string?
function Client:lock(lease, prefix, uuid, ms) end

---@param prefix string
---@param uuid string
---@return table?
---@return string?
---@return string?
function Client:unlock(prefix, uuid) end

function Client:close() end

---A stream of changes.
---@class silly.store.etcd.Watch
local Watch = {}

---@param ms? integer
---@return table?
---@return string?
---@return string?
---@return integer?
function Watch:read(ms) end

function Watch:cancel() end

function Watch:close() end

---A client of etcd: keys, transactions, leases, watches, locks.
---@class silly.store.etcd
local M = {}

---@param options silly.store.etcd.Options
---@return silly.store.etcd.Client
function M.newclient(options) end

return M
