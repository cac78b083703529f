---@meta silly.store.postgres

---Options of a pool.
---@class silly.store.postgres.Options
---@field addr? string
---@field user string
---@field password? string
---@field database? string
---@field application_name? string
---@field tls? boolean|table
---@field max_open_conns? integer
---@field max_idle_conns? integer
---@field max_idle_time? integer
---@field max_lifetime? integer
---@field timeout? integer
---@field connect_timeout? integer
---@field max_packet_size? integer
---@field max_result_size? integer

---A pool of connections.
---@class silly.store.postgres.Pool
local Pool = {}

---Rows, or what a statement without rows gives; parameters are $1, $2, …
---@param sql string
---@param ... any
---@return table?
---@return silly.store.postgres.Error?
function Pool:query(sql, ...) end

---@return table?
---@return silly.store.postgres.Error?
function Pool:ping() end

---@return silly.store.postgres.Conn?
---@return silly.store.postgres.Error?
function Pool:begin() end

---@param channel string
---@param ... string
---@return silly.store.postgres.Subscription?
---@return silly.store.postgres.Error?
function Pool:listen(channel, ...) end

---@return table<string, integer>
function Pool:stat() end

function Pool:close() end

---A connection in a transaction.
---@class silly.store.postgres.Conn
local Conn = {}

---@param sql string
---@param ... any
---@return table?
---@return silly.store.postgres.Error?
function Conn:query(sql, ...) end

---@return table?
---@return silly.store.postgres.Error?
function Conn:ping() end

---@return table?
---@return silly.store.postgres.Error?
function Conn:commit() end

---@return table?
---@return silly.store.postgres.Error?
function Conn:rollback() end

function Conn:close() end

---Notifications of channels.
---@class silly.store.postgres.Subscription
local Subscription = {}

---@param ms? integer
---@return table?
---@return string?
function Subscription:read(ms) end

---@param channel string
---@return boolean?
---@return silly.store.postgres.Error?
function Subscription:listen(channel) end

---@param channel string
---@return boolean?
---@return silly.store.postgres.Error?
function Subscription:unlisten(channel) end

function Subscription:close() end

---An error of the server or the connection.
---@class silly.store.postgres.Error
---@field type string
---@field message string
---@field sqlstate? string
---@field severity? string
---@field detail? string
---@field hint? string
---@field position? string
---@field table? string
---@field column? string
---@field constraint? string
---@field lost? boolean

---A pool of connections to PostgreSQL.
---@class silly.store.postgres
local M = {}

---@param options silly.store.postgres.Options
---@return silly.store.postgres.Pool
function M.open(options) end

return M
