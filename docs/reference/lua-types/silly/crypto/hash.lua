---@meta silly.crypto.hash

---The state of a hash.
---@class silly.crypto.hash.Hash
local Hash = {}

---@param data string
function Hash:update(data) end

---The digest; resets the state.
---@return string
function Hash:final() end

---The digest of this data only.
---@param data string
---@return string
function Hash:digest(data) end

function Hash:reset() end

---Hash functions.
---@class silly.crypto.hash
local M = {}

---@param algorithm string
---@param data string
---@return string
function M.hash(algorithm, data) end

---@param algorithm string
---@return silly.crypto.hash.Hash
function M.new(algorithm) end

---@param object silly.crypto.hash.Hash
---@param data string
function M.update(object, data) end

---The digest; resets the state.
---@param object silly.crypto.hash.Hash
---@return string
function M.final(object) end

---The digest of this data only.
---@param object silly.crypto.hash.Hash
---@param data string
---@return string
function M.digest(object, data) end

---@param object silly.crypto.hash.Hash
function M.reset(object) end

return M
