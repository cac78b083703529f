---@meta silly.sync.channel

---A queue that coroutines wait at.
---@class silly.sync.channel.Channel
local Channel = {}

---@param value any
---@return boolean
---@return string?
function Channel:push(value) end

---@param ms? integer
---@return any
---@return string?
function Channel:pop(ms) end

---@return integer
function Channel:size() end

function Channel:clear() end

---@param reason? string
function Channel:close(reason) end

---Many producers, one consumer.
---@class silly.sync.channel
local M = {}

---@param capacity? integer
---@return silly.sync.channel.Channel
function M.new(capacity) end

---@param object silly.sync.channel.Channel
---@param value any
---@return boolean
---@return string?
function M.push(object, value) end

---@param object silly.sync.channel.Channel
---@param ms? integer
---@return any
---@return string?
function M.pop(object, ms) end

---@param object silly.sync.channel.Channel
---@return integer
function M.size(object) end

---@param object silly.sync.channel.Channel
function M.clear(object) end

---@param object silly.sync.channel.Channel
---@param reason? string
function M.close(object, reason) end

return M
