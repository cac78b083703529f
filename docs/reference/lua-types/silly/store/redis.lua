---@meta silly.store.redis

---Options of a client.
---@class silly.store.redis.Options
---@field addr? string
---@field auth? string
---@field user? string
---@field db? integer
---@field tls? boolean|table
---@field timeout? integer
---@field connect_timeout? integer
---@field pool? integer
---@field protocol? integer
---@field limit? integer
---@field waiting? integer
---@field on_push? fun(message: any[])

---A client; every command is a method.
---@class silly.store.redis.Client
---@field [string] fun(self: silly.store.redis.Client, ...: any): boolean, any
local Client = {}

---@param name string
---@param ... any
---@return boolean
---@return any
---@return string?
function Client:call(name, ...) end

---@param commands any[][]
---@param results? any[]
---@return any[]|boolean
---@return string|integer?
function Client:pipeline(commands, results) end

---@param channel string
---@param ... string
---@return silly.store.redis.Subscription?
---@return string?
function Client:subscribe(channel, ...) end

---@param pattern string
---@param ... string
---@return silly.store.redis.Subscription?
---@return string?
function Client:psubscribe(pattern, ...) end

function Client:close() end

---Messages of channels.
---@class silly.store.redis.Subscription
local Subscription = {}

---@param ms? integer
---@return table?
---@return string?
function Subscription:read(ms) end

---@param ... string
---@return boolean?
---@return string?
function Subscription:subscribe(...) end

---@param ... string
---@return boolean?
---@return string?
function Subscription:psubscribe(...) end

---@param ... string
---@return boolean?
---@return string?
function Subscription:unsubscribe(...) end

---@param ... string
---@return boolean?
---@return string?
function Subscription:punsubscribe(...) end

function Subscription:close() end

---Commands and subscriptions of Redis.
---@class silly.store.redis
local M = {}

---@param options silly.store.redis.Options
---@return silly.store.redis.Client
function M.new(options) end

return M
