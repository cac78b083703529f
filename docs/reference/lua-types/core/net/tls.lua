---@meta core.net.tls

return require "silly.net.tls"
