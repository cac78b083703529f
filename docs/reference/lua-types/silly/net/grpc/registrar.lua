---@meta silly.net.grpc.registrar

---The methods of a server.
---@class silly.net.grpc.registrar.Registrar
---@field handlers table
local Registrar = {}

---@param proto table
---@param name? string|table
---@param functions? table<string, function>
function Registrar:register(proto, name, functions) end

---Which function serves which method.
---@class silly.net.grpc.registrar
local M = {}

---@return silly.net.grpc.registrar.Registrar
function M.new() end

---@param object silly.net.grpc.registrar.Registrar
---@param proto table
---@param name? string|table
---@param functions? table<string, function>
function M.register(object, proto, name, functions) end

return M
