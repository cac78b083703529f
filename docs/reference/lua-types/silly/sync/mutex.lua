---@meta silly.sync.mutex

---Locks by key.
---@class silly.sync.mutex.Mutex
local Mutex = {}

---@param key any
---@return silly.sync.mutex.Lock
function Mutex:lock(key) end

---A held lock.
---@class silly.sync.mutex.Lock
local Lock = {}

function Lock:unlock() end

---Locks by key.
---@class silly.sync.mutex
local M = {}

---@return silly.sync.mutex.Mutex
function M.new() end

---@param object silly.sync.mutex.Mutex
---@param key any
---@return silly.sync.mutex.Lock
function M.lock(object, key) end

return M
