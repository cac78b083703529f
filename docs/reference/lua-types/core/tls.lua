---@meta core.tls

return require "silly.net.tls"
