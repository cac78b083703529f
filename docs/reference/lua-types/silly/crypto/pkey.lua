---@meta silly.crypto.pkey

---A private or public key.
---@class silly.crypto.pkey.Key
local Key = {}

---@param data string
---@param hash string
---@return string?
---@return string?
function Key:sign(data, hash) end

---@param data string
---@param signature string
---@param hash string
---@return boolean?
---@return string?
function Key:verify(data, signature, hash) end

---@param data string
---@param padding? integer
---@param hash? string
---@return string?
---@return string?
function Key:encrypt(data, padding, hash) end

---@param data string
---@param padding? integer
---@param hash? string
---@return string?
---@return string?
function Key:decrypt(data, padding, hash) end

---RSA and elliptic curve keys.
---@class silly.crypto.pkey
---@field RSA_NO integer
---@field RSA_PKCS1 integer
---@field RSA_PKCS1_OAEP integer
---@field RSA_PKCS1_PSS integer
---@field RSA_PKCS1_WITH_TLS integer
---@field RSA_X931 integer
local M = {}

---@param pem string
---@param password? string
---@return silly.crypto.pkey.Key?
---@return string?
function M.new(pem, password) end

---@param object silly.crypto.pkey.Key
---@param data string
---@param hash string
---@return string?
---@return string?
function M.sign(object, data, hash) end

---@param object silly.crypto.pkey.Key
---@param data string
---@param signature string
---@param hash string
---@return boolean?
---@return string?
function M.verify(object, data, signature, hash) end

---@param object silly.crypto.pkey.Key
---@param data string
---@param padding? integer
---@param hash? string
---@return string?
---@return string?
function M.encrypt(object, data, padding, hash) end

---@param object silly.crypto.pkey.Key
---@param data string
---@param padding? integer
---@param hash? string
---@return string?
---@return string?
function M.decrypt(object, data, padding, hash) end

return M
