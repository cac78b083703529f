---@meta silly.crypto.cipher

---A cipher with its key.
---@class silly.crypto.cipher.Cipher
local Cipher = {}

---The output so far.
---@param data string
---@return string
function Cipher:update(data) end

---The last output.
---@param data? string
---@return string?
---@return string?
function Cipher:final(data) end

---Starts over.
---@param key string
---@param iv? string
function Cipher:reset(key, iv) end

---@param on boolean|integer
function Cipher:setpadding(on) end

---Adds authenticated data.
---@param data string
function Cipher:setaad(data) end

---Of an encryptor, after final.
---@return string
function Cipher:tag() end

---Of a decryptor, before final.
---@param tag string
function Cipher:settag(tag) end

---Symmetric ciphers.
---@class silly.crypto.cipher
local M = {}

---@param algorithm string
---@param key string
---@param iv? string
---@return silly.crypto.cipher.Cipher
function M.encryptor(algorithm, key, iv) end

---@param algorithm string
---@param key string
---@param iv? string
---@return silly.crypto.cipher.Cipher
function M.decryptor(algorithm, key, iv) end

---The output so far.
---@param object silly.crypto.cipher.Cipher
---@param data string
---@return string
function M.update(object, data) end

---The last output.
---@param object silly.crypto.cipher.Cipher
---@param data? string
---@return string?
---@return string?
function M.final(object, data) end

---Starts over.
---@param object silly.crypto.cipher.Cipher
---@param key string
---@param iv? string
function M.reset(object, key, iv) end

---@param object silly.crypto.cipher.Cipher
---@param on boolean|integer
function M.setpadding(object, on) end

---Adds authenticated data.
---@param object silly.crypto.cipher.Cipher
---@param data string
function M.setaad(object, data) end

---Of an encryptor, after final.
---@param object silly.crypto.cipher.Cipher
---@return string
function M.tag(object) end

---Of a decryptor, before final.
---@param object silly.crypto.cipher.Cipher
---@param tag string
function M.settag(object, tag) end

return M
