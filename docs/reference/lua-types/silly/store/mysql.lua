---@meta silly.store.mysql

---Options of a pool.
---@class silly.store.mysql.Options
---@field addr? string
---@field user? string
---@field password? string
---@field database? string
---@field charset? string
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
---@class silly.store.mysql.Pool
local Pool = {}

---@param sql string
---@param ... any
---@return table?
---@return silly.store.mysql.Error?
---@return table?
function Pool:query(sql, ...) end

---@return table?
---@return silly.store.mysql.Error?
function Pool:ping() end

---@return silly.store.mysql.Conn?
---@return silly.store.mysql.Error?
function Pool:begin() end

---@return table<string, integer>
function Pool:stat() end

function Pool:close() end

---A connection in a transaction.
---@class silly.store.mysql.Conn
local Conn = {}

---@param sql string
---@param ... any
---@return table?
---@return silly.store.mysql.Error?
---@return table?
function Conn:query(sql, ...) end

---@return table?
---@return silly.store.mysql.Error?
function Conn:ping() end

---@return table?
---@return silly.store.mysql.Error?
function Conn:commit() end

---@return table?
---@return silly.store.mysql.Error?
function Conn:rollback() end

function Conn:close() end

---An error of the server or the connection.
---@class silly.store.mysql.Error
---@field type string
---@field message string
---@field errno? integer
---@field sqlstate? string
---@field lost? boolean

---A pool of connections to MySQL or MariaDB.
---@class silly.store.mysql
local M = {}

---@param options? silly.store.mysql.Options
---@return silly.store.mysql.Pool
function M.open(options) end

return M
