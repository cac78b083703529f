---@meta silly.tls.ctx

---Settings of TLS.
---@class silly.tls.ctx.Context

---Settings of TLS that connections or listeners share.
---@class silly.tls.ctx
local M = {}

---@param options? table
---@return silly.tls.ctx.Context?
---@return string?
function M.client(options) end

---@param options table
---@return silly.tls.ctx.Context?
---@return string?
function M.server(options) end

return M
