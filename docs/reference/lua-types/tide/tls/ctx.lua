---@meta tide.tls.ctx

return require "silly.tls.ctx"
